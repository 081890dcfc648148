# SPDX-License-Identifier: Apache-2.0
"""Real workers whose training goes on and is lost: a NaN on one rank, workers that train apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.guard.tf_workers import Ran, job
from tests.lazy_framework import need_framework

need_framework("tf_keras")
pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    folder = tmp_path_factory.mktemp("tf")
    jobs: dict[str, Callable[[], Ran]] = {
        "batch": job(folder / "batch", "tf_silent.py", "nan_batch"),
        "loss": job(folder / "loss", "tf_silent.py", "nan_loss"),
        "strict": job(folder / "strict", "tf_silent.py", "nan_batch", env={"KEEPSTEP": "strict"}),
        "apart": job(folder / "apart", "tf_silent.py", "no_scope"),
        "no run": job(folder / "no-run", "tf_silent.py", "no_run"),
        "by hand": job(folder / "by-hand", "tf_silent.py", "by_hand"),
        "healthy": job(folder / "healthy", "tf_silent.py", "healthy"),
        "plain": job(folder / "plain", "tf_silent.py", "healthy", env={"KEEPSTEP": "off"}),
    }
    return lambda name: jobs[name]()


@pytest.mark.long
def test_a_batch_with_a_nan_that_only_the_graph_sees_is_told_by_its_rank(runs: Callable[[str], Ran]) -> None:
    ran = runs("batch")
    assert ran.codes == [0, 0]
    odd = [each for each in ran.notes if type(each.fact).__name__ == "BatchOdd"]
    assert [(each.who, each.fact.kind) for each in odd] == [(1, "not finite")]  # type: ignore[attr-defined]
    assert (1,) in [fact.began for fact in ran.facts("LossNotFinite")]
    assert any(line.startswith("keepstep: rank 1: a batch holds NaN or infinite values") for line in ran.spoken)


@pytest.mark.long
def test_a_loss_that_one_rank_makes_nan_is_told_with_that_rank(runs: Callable[[str], Ran]) -> None:
    ran = runs("loss")
    assert not ran.facts("BatchOdd")
    told = ran.facts("LossNotFinite")
    # a rank that leaves before the other one has said when its own began does not know it
    assert (1,) in {fact.began for fact in told} <= {(1,), ()}


@pytest.mark.long
def test_in_strict_the_rank_with_the_nan_refuses_to_go_on(runs: Callable[[str], Ran]) -> None:
    ran = runs("strict")
    assert "OutOfStep: rank 1: a batch holds NaN or infinite values" in ran.outputs[1]
    assert "OutOfStep" not in ran.outputs[0]


@pytest.mark.long
def test_workers_that_exchange_no_gradient_are_told_within_a_hundred_steps(runs: Callable[[str], Ran]) -> None:
    told = runs("apart").facts("TrainsApart")
    assert len(told) == 2 and all(fact.steps <= 100 and not fact.scoped and fact.world == 2 for fact in told)


@pytest.mark.long
def test_a_model_in_scope_whose_step_goes_without_strategy_run_is_told_too(runs: Callable[[str], Ran]) -> None:
    told = runs("no run").facts("TrainsApart")
    assert len(told) == 2 and all(fact.steps <= 100 and fact.scoped for fact in told)


@pytest.mark.long
def test_a_loop_that_reduces_its_gradients_by_hand_is_no_training_apart(runs: Callable[[str], Ran]) -> None:
    ran = runs("by hand")
    assert (ran.codes, ran.remarkable, ran.spoken) == ([0, 0], [], [])


@pytest.mark.long
def test_what_is_counted_beside_the_step_changes_no_result(runs: Callable[[str], Ran]) -> None:
    ran = runs("healthy")
    assert (ran.codes, ran.remarkable, ran.spoken) == ([0, 0], [], [])
    assert ran.digests == runs("plain").digests and len(set(ran.digests)) == 1
