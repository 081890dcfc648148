# SPDX-License-Identifier: Apache-2.0
"""PyTorch ranks that do different things: reported with rank, what and both values, before or as it happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.codec import from_dict
from tests.guard.torch_ranks import Ranks, ranks

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]

NAMED_WITHIN_S = 3.0
"""A second on a machine that has cores to spare; the tests' machine is busy."""


def broken(run: Ranks, subject: str) -> dict[str, list[tuple[str, list[int]]]]:
    """What ranks differ in, with each value and its ranks, by the guard's own words."""
    found = {}
    for note in run.notes("ContractBroken"):
        from_dict(note)  # every note can be read back
        if note["fields"]["subject"].startswith(subject):
            found[note["fields"]["what"]] = [(value, list(who)) for value, who in note["fields"]["values"]]
    return found


def seconds_until_told(run: Ranks, rank: int) -> float:
    struck = float(re.findall(r"struck at ([\d.]+)", run.log(rank))[0])
    return min(note["at"] for note in run.notes("ContractBroken") if note["fields"]["certain"]) - struck


def test_a_model_that_is_wider_on_one_rank_is_refused_before_it_is_wrapped(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "model") as run:
        assert run.ended() == [0, 0], run.logs()
        differ = broken(run, "model")
        assert differ["parameter 0.0.weight"] == [("float32[32, 8]", [0]), ("float32[48, 8]", [1])]
        for how in ("ddp", "fsdp", "fully_shard"):
            assert f"{how}: rank 1: the ranks are about to run different things (model)" in run.log(1)
        assert all(note["fields"]["before"] for note in run.notes("ContractBroken"))


def test_optimizers_batches_and_epochs_that_differ_are_reported_while_the_training_goes_on(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "differs", "--steps", "200") as run:
        assert run.ended() == [0, 0], run.logs()
        assert broken(run, "optimizer")["lr"] == [("0.1", [0]), ("0.2", [1])]
        batch = broken(run, "batch")
        assert batch["batches"] == [("200", [0]), ("534", [1])]
        assert batch["rows"] == [("16", [0]), ("12", [1])]
        assert batch["batch[0]"] == [("float32[...]", [0]), ("float64[...]", [1])]
        assert not any(note["fields"]["certain"] for note in run.notes("ContractBroken"))


def test_a_barrier_that_one_rank_enters_alone_is_named_while_all_hang(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "barrier", "--rank", "0", count=3) as run:
        run.wait_for(lambda: broken(run, "collective"))
        told = dict(broken(run, "collective")["operation"])
        assert told.pop("barrier") == [0]
        # from the stacks, or from torch's own record of all collectives, which one of the others may not have sent yet
        ((other, waiting),) = told.items()
        assert other in ("gradients of loss.backward()", "all_reduce float32[420]")
        assert waiting and set(waiting) <= {1, 2}
        assert seconds_until_told(run, 0) < NAMED_WITHIN_S
        assert all(process.poll() is None for process in run.processes)
        report = explain_paths([run.guard]).report
        assert report.findings[0].cause.value == "sync.collective_mismatch"
        assert report.findings[0].ranks == (0,)


def test_another_operation_is_named_with_the_lines_of_both(tmp_path: Path) -> None:
    with ranks(tmp_path, "--fault", "operation") as run:
        run.wait_for(lambda: broken(run, "collective"))
        told = broken(run, "collective")["operation"]
        assert told == [("all_reduce float32[2]", [0]), ("broadcast float32[2]", [1])]
        assert seconds_until_told(run, 1) < NAMED_WITHIN_S
        # from the stacks, or from torch's own record of all collectives
        line = r"at torch_training.py:\d+, in train\(\)"
        assert re.search(
            rf"rank 0 {line}; rank 1 {line}|"
            rf"all_reduce float32\[2\] {line} on rank 0 but broadcast float32\[2\] {line} on rank 1",
            run.log(0),
        )


@pytest.mark.parametrize(
    ("fault", "what", "mine"),
    [
        pytest.param("shape", "size", "all_reduce float32, 8 elements", marks=pytest.mark.long),
        ("dtype", "dtype", "all_reduce float64, 2 elements"),
    ],
)
def test_a_size_that_makes_gloo_end_a_process_is_named_by_the_rank_that_is_left(
    tmp_path: Path, fault: str, what: str, mine: str
) -> None:
    """gloo ends one of them at once: it is reported in runs in which its guard could still speak, which are most."""
    for attempt in range(5):
        with ranks(tmp_path / str(attempt), "--fault", fault) as run:
            assert any(run.ended()), run.logs()
            told = broken(run, "collective").get(what)
        if told:
            break
    assert told == [("all_reduce float32, 2 elements", [0]), (mine, [1])], run.logs()
