# SPDX-License-Identifier: Apache-2.0
"""Contracts between guards: differences are reported with rank, what and both values; no wait is unbounded."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.errors import OutOfStep
from keepstep.guard.agree.contract import LEAST_S, MOST_S, PATIENCE_S, WaitBudget
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session
from keepstep.signals.contracts import KEPT, UNKNOWN, WHERE, differences, lines


def guard_of(rank: int, world: int, folder: Path, **env: str) -> Session:
    env = {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(folder / "guard"), "KEEPSTEP_SUPERVISOR": "1"} | env
    return Session(Identity(rank=rank, world=world, said_by="torchrun"), env)


def all_agree(
    guards: list[Session], subject: str, stated: list[dict[str, str]], patience: float = 20.0
) -> list[str | None]:
    """Every rank in its own thread: what it was told, or None."""
    told: list[str | None] = [None] * len(guards)

    def side(number: int) -> None:
        try:
            guards[number].agree(subject, stated[number], patience=patience)
        except OutOfStep as error:
            told[number] = str(error)

    threads = [threading.Thread(target=side, args=(n,)) for n in range(len(guards))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


@pytest.fixture
def three(tmp_path: Path) -> list[Session]:
    guards = [guard_of(rank, 3, tmp_path) for rank in range(3)]
    for guard in guards:
        guard.use_exchange(SharedFolder(tmp_path / "exchange"))
    return guards


def test_equal_plans_pass_and_cost_milliseconds(three: list[Session]) -> None:
    began = time.monotonic()
    for _ in range(10):
        assert all_agree(three, "program step", [{"collectives": "all-reduce f32[8]"}] * 3) == [None] * 3
    assert time.monotonic() - began < 10.0


def test_a_difference_is_told_on_every_rank(
    three: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [
        {"dense/kernel": "float32[32, 64]"},
        {"dense/kernel": "float32[32, 64]"},
        {"dense/kernel": "float32[32, 65]"},
    ]
    told = all_agree(three, "variables", sides)
    assert all(t and "float32[32, 65] on rank 2" in t and "float32[32, 64] on ranks 0, 1" in t for t in told)
    assert "ranks differ in variables" in capsys.readouterr().err
    for guard in three:
        guard.close()
    root = explain_paths([tmp_path / "guard"]).report.root
    assert root is not None and (root.rule, root.cause.value, root.ranks) == (
        "SYN201",
        "sync.collective_mismatch",
        (2,),
    )


def test_a_rank_that_does_not_answer_is_noted_and_nobody_waits(three: list[Session], tmp_path: Path) -> None:
    began = time.monotonic()
    assert all_agree(three[:2], "program step", [{"a": "1"}] * 2, patience=0.3) == [None, None]
    assert time.monotonic() - began < 5.0
    for guard in three[:2]:
        guard.close()
    report = explain_paths([tmp_path / "guard"]).report
    assert [f.rule for f in report.findings] == [], "both ended in good order: the third was not needed"
    notes = [
        json.loads(line) for path in (tmp_path / "guard").glob("rank0*.jsonl") for line in path.read_text().splitlines()
    ]
    assert [n["fields"]["missing"] for n in notes if n["fact"] == "PeerSilent"] == [[2]]


def test_many_contracts_that_nobody_answers_do_not_hold_a_rank_longer_than_one(three: list[Session]) -> None:
    """In all, not each: before the first step by a constant, afterwards by a few usual steps."""
    alone = three[1]
    for _ in range(5):
        alone.step_done()
    began = time.monotonic()
    for number in range(50):
        alone.agree(f"program {number}", {"a": "1"})
    assert time.monotonic() - began < LEAST_S + 5.0


def test_patience_is_spent_over_all_contracts_and_renewed_by_answers_in_training() -> None:
    patience = WaitBudget()
    patience.waited(4.0, answered=True)
    patience.waited(4.0, answered=False)
    assert patience.left(0, None) == PATIENCE_S - 8.0
    patience.waited(4.0, answered=False)
    assert patience.left(0, None) == 0.0
    assert patience.left(1, 0.01) == LEAST_S, "a few short steps are too short for an answer"
    assert patience.left(9, 3.0) == 9.0
    patience.waited(9.0, answered=False)
    assert patience.left(9, 3.0) == 0.0
    patience.waited(0.0, answered=True)
    assert patience.left(9, 3.0) == 9.0
    assert patience.left(9, 600.0) == MOST_S


def test_lines_are_told_and_not_compared_and_who_kept_to_the_agreement_is_not_odd() -> None:
    sides = {0: {KEPT: "yes", WHERE: "train.py:9", "x": "8"}, 1: {WHERE: "train.py:7", "x": "6"}}
    (found,) = differences(sides)
    assert (found.what, found.odd, found.values[0]) == ("x", (1,), ("8", (0,)))
    assert lines(sides, (found,)) == {1: "train.py:7"}
    assert not differences({0: {KEPT: "yes", WHERE: "a:1", "x": "8"}, 1: {WHERE: "b:2", "x": "8"}})


def test_without_an_exchange_the_statements_are_compared_afterwards(tmp_path: Path) -> None:
    for rank, rows in ((0, "16"), (1, "16"), (2, "12")):
        guard = guard_of(rank, 3, tmp_path)
        guard.compare("batches", {"in an epoch": rows})
        guard.step_done()
        guard.close()
    report = explain_paths([tmp_path / "guard"]).report
    assert [(f.rule, f.ranks, f.severity.value) for f in report.findings] == [("DAT203", (2,), "warning")]


def test_an_exchange_that_fails_turns_contracts_off_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone:
        name = "a service that is gone"

        def put(self, key: str, value: str) -> None:
            raise ConnectionError("the coordinator has left")

        def get(self, key: str) -> str | None:
            raise ConnectionError("the coordinator has left")

    guard = guard_of(0, 2, tmp_path)
    guard.use_exchange(Gone())
    guard.agree("program step", {"a": "1"})
    guard.agree("program step", {"a": "1"})
    guard.step_done()
    guard.close()
    assert capsys.readouterr().err.count("contracts is off") == 1
    coverage = explain_paths([tmp_path / "guard"]).report.coverage
    assert any(c.what == "guard: contracts" and "coordinator has left" in c.why for c in coverage)


@pytest.mark.parametrize("broken", ["folder", "memory", "both"])
def test_a_guard_that_cannot_write_lets_the_training_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    from keepstep.signals import box_files

    if broken in ("memory", "both"):
        monkeypatch.setattr(box_files, "MEMORY", tmp_path / "no such folder")
    target = tmp_path
    if broken in ("folder", "both"):
        target = tmp_path / "a file"
        target.write_text("not a folder")
    guard = guard_of(0, 2, target)
    for _ in range(5):
        guard.step_done()
    guard.note("GuardPart", {"part": "x", "why": "y"}, "quote")
    guard.close()
    assert guard.steps == 5
    assert ("black box is off" in capsys.readouterr().err) == (broken != "memory")


def test_off_means_off(tmp_path: Path) -> None:
    guard = guard_of(0, 2, tmp_path, KEEPSTEP="off")
    guard.step_done()
    guard.agree("program", {"a": "1"})
    guard.close()
    assert not (tmp_path / "guard").exists()


def test_differences_name_the_minority() -> None:
    found = differences({0: {"a": "1", "b": "x"}, 1: {"a": "1", "b": "x"}, 2: {"a": "2"}})
    assert [(d.what, d.odd) for d in found] == [("a", (2,)), ("b", (2,))]
    assert str(found[0]) == "a: 1 on ranks 0, 1 but 2 on rank 2"
    assert differences({0: {"a": "1"}, 1: {"a": "2"}})[0].odd == (0, 1)


def test_a_rank_that_cannot_say_differs_from_nobody() -> None:
    assert not differences({0: {"rows": "8"}, 1: {"rows": UNKNOWN}})
    (found,) = differences({0: {"rows": "8"}, 1: {"rows": UNKNOWN}, 2: {"rows": "4"}})
    assert found.values == (("8", (0,)), ("4", (2,)))
