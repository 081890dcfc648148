# SPDX-License-Identifier: Apache-2.0
"""Real JAX processes out of step: each fault is reported with rank, what and both values, before or as it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.cause import Cause
from keepstep.model.codec import from_dict
from keepstep.model.evidence import Evidence
from tests.guard.torch_ranks import Ranks, ranks

pytestmark = [pytest.mark.frameworks("jax"), pytest.mark.slow]
SCRIPT = Path(__file__).with_name("jax_training.py")


def broken(running: Ranks) -> dict[str, dict[str, tuple[int, ...]]]:
    """What differed, and the ranks of each value."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for note in running.notes("ContractBroken"):
        found[note["fields"]["what"]] = {value: tuple(ranks) for value, ranks in note["fields"]["values"]}
    return found


@pytest.mark.parametrize(
    ("fault", "what", "values"),
    [
        (
            "ragged",
            "argument x",
            ["float32[16,8] split (data) over mesh data=2", "float32[12,8] split (data) over mesh data=2"],
        ),
        pytest.param(
            "dtype",
            "argument x",
            ["float32[16,8] split (data) over mesh data=2", "float16[16,8] split (data) over mesh data=2"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            "width",
            "state weights['w1']",
            ["float32[8,16] whole on each of mesh data=2", "float32[8,24] whole on each of mesh data=2"],
            marks=pytest.mark.long,
        ),
        ("other_program", "next program", ["update", "loss_of"]),
    ],
)
def test_programs_that_differ_are_refused_before_they_run(
    tmp_path: Path, fault: str, what: str, values: list[str]
) -> None:
    with ranks(tmp_path, "--fault", fault, script=SCRIPT) as running:
        running.wait_for(lambda: all("OutOfStep" in running.log(rank) for rank in (0, 1)))
        assert broken(running)[what] == {values[0]: (0,), values[1]: (1,)}
        assert all(note["fields"]["before"] for note in running.notes("ContractBroken"))
        assert not running.results()


@pytest.mark.long
def test_another_operation_between_the_processes_is_refused(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "operation", script=SCRIPT) as running:
        running.wait_for(lambda: all("OutOfStep" in running.log(rank) for rank in (0, 1)))
        values = [value for what, each in broken(running).items() if what.startswith("collective ") for value in each]
        assert any("all-reduce maximum" in value for value in values)


def test_a_batch_that_is_short_on_one_rank_in_the_middle_of_the_run_is_refused(tmp_path: Path) -> None:
    """Only that rank compiles again; the others are in a program that they know, and their guards' threads answer."""
    with ranks(tmp_path, "--fault", "late_ragged", "--steps", "400", count=3, script=SCRIPT) as running:
        running.wait_for(lambda: "OutOfStep" in running.log(2))
        assert broken(running)["argument x"] == {
            "float32[24,8] split (data) over mesh data=3": (0, 1),
            "float32[18,8] split (data) over mesh data=3": (2,),
        }


@pytest.mark.long
def test_the_same_amid_metrics_names_the_rank_that_changed_and_its_line(tmp_path: Path) -> None:
    """One function that is compiled with collectives and without: which of them ran must not be confused."""
    with ranks(tmp_path, "--fault", "late_ragged_amid_metrics", "--steps", "400", script=SCRIPT) as running:
        running.wait_for(lambda: "ranks differ in program update: argument x" in running.log(1))
        running.wait_for(lambda: "argument x" in broken(running))
        (told,) = [
            note
            for note in running.notes("ContractBroken")
            if note["rank"]["index"] == 1 and note["fields"]["what"] == "argument x"
        ]
        assert told["fields"]["odd"] == [1] and told["fields"]["values"] == [
            ["float32[16,8] split (data) over mesh data=2", [0]],
            ["float32[12,8] split (data) over mesh data=2", [1]],
        ]
        ((rank, line),) = told["fields"]["places"]
        assert rank == 1 and line.startswith("jax_training.py:")
    root = explain_paths([running.guard]).report.root
    assert root is not None and (root.rule, root.ranks) == ("DAT201", (1,))


def test_a_rank_that_ends_early_is_named_while_the_others_wait(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "fewer_steps", script=SCRIPT) as running:
        running.wait_for(lambda: "waits for ranks that are gone" in running.log(0))
        assert "rank 1 left after 6 steps" in running.log(0)
        running.wait_for(lambda: running.notes("ContractBroken"))
        assert broken(running)["steps taken"]["6"] == (1,)


@pytest.mark.long
def test_programs_that_compute_something_else_are_reported_and_go_on(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "activation", "--steps", "60", script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        assert broken(running)["operation tanh"] == {"1": (0,), "(none)": (1,)}
        assert not any(note["fields"]["certain"] for note in running.notes("ContractBroken"))


@pytest.mark.long
def test_a_storm_of_compilations_is_told_with_the_argument_that_changes(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "changing", "--steps", "9", script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        for note in running.notes("Recompiling"):
            assert note["fields"]["function"] == "update"
            assert "argument x was float32[" in note["fields"]["reason"]
        assert {note["rank"]["index"] for note in running.notes("Recompiling")} == {0, 1}
        assert all(decoded(note) for note in running.notes())


@pytest.mark.long
def test_a_process_that_trains_alone_is_named_at_its_first_step(tmp_path: Path) -> None:
    with ranks(tmp_path, "--alone", "--steps", "3", script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        for rank in (0, 1):
            assert f"keepstep: rank {rank}: trains alone" in running.log(rank)
        worlds = [note["fields"] for note in running.notes("WorldFormed")]
        assert all(each["size"] == 1 and each["meant"] == 2 and each["at_step"] for each in worlds)


@pytest.mark.long
def test_values_that_are_not_finite_are_seen_on_the_host(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "nan", "--steps", "60", script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        (odd,) = running.notes("BatchOdd")
        assert (odd["rank"]["index"], odd["fields"]["kind"], odd["fields"]["part"]) == (1, "not finite", "batch['x']")


@pytest.mark.parametrize("mode", ["on", pytest.param("strict", marks=pytest.mark.long)])
def test_a_single_batch_with_nan_is_told_before_its_step_by_the_rank_that_got_it(tmp_path: Path, mode: str) -> None:
    with ranks(tmp_path, "--fault", "late_nan", "--steps", "100", script=SCRIPT, KEEPSTEP=mode) as running:
        running.wait_for(lambda: "NaN or infinite values" in running.log(1))
        running.wait_for(lambda: running.notes("BatchOdd"))
        (odd,) = running.notes("BatchOdd")
        assert (odd["rank"]["index"], odd["fields"]["kind"], odd["fields"]["step"]) == (1, "not finite", 30)
        if mode == "strict":
            running.wait_for(lambda: "OutOfStep: rank 1: batch['x'] has NaN" in running.log(1))
        else:
            assert running.ended() == [0, 0]
            root = explain_paths([running.guard]).report.root
            assert root is not None and (root.cause, root.ranks) == (Cause.NUMERIC_NAN_OR_DIVERGENCE, (1,))
            assert "batch" in root.title


@pytest.mark.long
def test_a_loss_that_becomes_nan_by_itself_is_told_while_the_run_goes_on(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "nan_weights", "--steps", "150", script=SCRIPT) as running:
        assert running.ended() == [0, 0]
        assert "update has returned nan since about step" in running.log(0)
        assert {note["rank"]["index"] for note in running.notes("LossNotFinite")} == {0, 1}
        root = explain_paths([running.guard]).report.root
        assert root is not None and (root.rule, root.ranks) == ("NUM202", ()), (
            "it is one loss over all ranks: none began it"
        )


@pytest.mark.long
def test_processes_that_train_on_meshes_of_their_own_are_told(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "local_mesh", "--steps", "1000000", script=SCRIPT) as running:
        running.wait_for(lambda: {note["rank"]["index"] for note in running.notes("NeverExchanged")} == {0, 1})
        root = explain_paths([running.guard]).report.root
        assert root is not None and (root.rule, root.ranks) == ("CFG206", (0, 1))


@pytest.mark.long
def test_devices_that_no_program_runs_on_are_reported(tmp_path: Path) -> None:
    two = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    with ranks(tmp_path, "--fault", "half_mesh", "--steps", "1000000", script=SCRIPT, **two) as running:
        running.wait_for(lambda: {note["rank"]["index"] for note in running.notes("DevicesLeft")} == {0, 1})
        root = explain_paths([running.guard]).report.root
        assert root is not None and (root.rule, sorted(root.ranks)) == ("CFG012", [0, 1])


def decoded(note: dict[str, Any]) -> Evidence | None:
    """What `keepstep why` makes of a note."""
    return from_dict(note)
