# SPDX-License-Identifier: Apache-2.0
"""Real workers of TensorFlow that are about to do different things: reported with the rank, what, and both values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.guard.tf_workers import Ran, job

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    folder = tmp_path_factory.mktemp("tf")
    jobs: dict[str, Callable[[], Ran]] = {
        "shape": job(folder / "shape", "tf_training.py", "--wrong", "width"),
        "op": job(folder / "op", "tf_training.py", "--wrong", "op"),
        "evaluates": job(folder / "evaluates", "tf_training.py", "--wrong", "evaluates", "--rows", "80"),
        "uneven": job(folder / "uneven", "tf_training.py", "--wrong", "uneven"),
        "extra": job(folder / "extra", "tf_training.py", "--wrong", "variable", "--at", "0"),
        "alone": job(folder / "alone", "tf_training.py", "--wrong", "alone", only=1),
    }
    return lambda name: jobs[name]()


def _broken(ran: Ran) -> list[Any]:
    return ran.facts("ContractBroken")


def test_variables_of_other_shapes_are_told_before_their_first_broadcast(runs: Callable[[str], Ran]) -> None:
    ran = runs("shape")
    assert ran.codes == [1, 1]
    for rank in (0, 1):
        assert "keepstep.errors.OutOfStep" in ran.outputs[rank]
        assert (
            "next: variable 1 float32[8,8] named hidden on rank 0 but variable 1 float32[8,10] named hidden on rank 1"
            in ran.outputs[rank]
        )
    assert all(fact.certain and fact.before for fact in _broken(ran))


def test_a_function_with_other_collectives_is_told_before_it_runs(runs: Callable[[str], Ran]) -> None:
    ran = runs("op")
    assert ran.codes == [1, 1]
    first = _broken(ran)[0]
    assert (first.subject, first.what) == ("program", "next")
    assert "function with 2 collectives named train_step" in first.values[0][0]
    assert "function with 4 collectives named train_step" in first.values[1][0]
    assert any("all-gather" in str(fact.values) and "all-reduce" in str(fact.values) for fact in _broken(ran))


@pytest.mark.long
def test_a_variable_that_only_one_rank_creates_is_told_against_what_the_other_is_about_to_run(
    runs: Callable[[str], Ran],
) -> None:
    first = _broken(runs("extra"))[0]
    assert first.values == (
        ("variable 3 float32[5] named extra", (0,)),
        ("function with 2 collectives named train_step", (1,)),
    )


def test_a_rank_that_evaluates_alone_is_told_while_the_other_is_in_the_next_step(runs: Callable[[str], Ran]) -> None:
    ran = runs("evaluates")
    first = _broken(ran)[0]
    assert first.values == (
        ("one more call of a known function named train_step", (0,)),
        ("function with 1 collective named evaluate", (1,)),
    )
    assert "OutOfStep" in ran.outputs[1]


def test_a_rank_with_fewer_batches_is_told_at_the_first_step_and_when_its_epoch_ends(
    runs: Callable[[str], Ran],
) -> None:
    told = {fact.what: dict(fact.values) for fact in _broken(runs("uneven")) if fact.subject == "batches"}
    assert told["batches of the dataset"] == {"6": (0,), "4": (1,)}


@pytest.mark.long
def test_a_rank_that_trains_alone_is_told_at_its_first_step(runs: Callable[[str], Ran]) -> None:
    ran = runs("alone")
    assert ran.codes == [0]
    assert any("trains alone: TF_CONFIG means a world of 2" in line for line in ran.spoken)
    worlds = [(fact.size, fact.meant, fact.at_step) for fact in ran.facts("WorldFormed")]
    assert (1, 2, True) in worlds
