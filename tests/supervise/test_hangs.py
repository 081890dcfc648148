# SPDX-License-Identifier: Apache-2.0
"""The rank is named by Python stacks, and nothing is decided before the native ones are there."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.process import ProcessSeen
from keepstep.model.finding import Confidence, Finding, Severity, Standing
from keepstep.model.identity import Rank
from keepstep.model.report import Report, Verdict
from keepstep.rules.asking.live_jobs import jobs
from keepstep.signals.blackbox import BoxPhase
from keepstep.supervise.watch import hangs, rank_stacks
from keepstep.supervise.watch.hang_detector import Sign, Stop
from keepstep.supervise.watch.hangs import Hangs
from keepstep.supervise.watch.own_evidence import Records
from keepstep.supervise.watch.rank_stacks import StacksLooked


def found(*ranks: int, still: bool | None = True, sure: bool = True) -> StacksLooked:
    root = Finding(
        rule="SYN001", cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, title=f"rank {ranks[0]} was stuck in a lock",
        because="it waits", evidence=(), ranks=ranks,
        severity=Severity.FATAL, confidence=Confidence.SUPPORTED, standing=Standing.MECHANISM,
    )  # fmt: skip
    return StacksLooked(EvidenceSet(items=()), still, Report(verdict=Verdict.HUNG, findings=(root,)), sure)


class Scene:
    """A hang whose looks answer when they are told to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, early: StacksLooked, late: StacksLooked) -> None:
        self.glanced, self.may_end = threading.Event(), threading.Event()

        def look(signs, *, early=None, _early=early):
            early(_early)
            self.glanced.set()
            assert self.may_end.wait(60)
            return late

        monkeypatch.setattr(rank_stacks, "look", look)
        self.folder = folder
        self.said: list[str] = []
        self.hangs = Hangs(Records(folder), ThreadPoolExecutor(max_workers=1), self.said.append, least_s=None)

    def at(self, now: float, steps: int = 10, progress: float | None = None) -> Stop | None:
        progress = 0.1 * steps if progress is None else progress
        signs = [
            Sign(pid=100 + rank, rank=rank, at=now, phase=BoxPhase.COMPUTE, steps=steps, progress=progress, usual_s=0.1)
            for rank in range(2)
        ]
        return self.hangs.tick(signs, now)

    def end_look(self) -> None:
        look = self.hangs._look
        assert look is not None
        self.may_end.set()
        look[1].result(timeout=60)

    def events(self) -> list[str]:
        return [json.loads(line)["what"] for line in (self.folder / "events.jsonl").read_text().splitlines()]


def test_the_rank_is_named_before_the_native_stacks_are_there(tmp_path, monkeypatch):
    scene = Scene(tmp_path, monkeypatch, found(1), found(1))
    assert scene.at(1.5) is None and scene.at(3.2) is None
    assert scene.glanced.wait(60)
    assert scene.at(3.5) is None
    assert scene.said == [
        "no progress for 2.5 s, 25 times the usual step; looking closer before doing anything",
        "  rank 1 was stuck in a lock",
    ]
    assert scene.at(3.7) is None and len(scene.said) == 2
    scene.end_look()
    stop = scene.at(5.0)
    assert stop is not None and stop.proven
    assert scene.events() == ["suspicion", "named", "looked"]


def test_a_run_that_moves_meanwhile_is_not_named(tmp_path, monkeypatch):
    scene = Scene(tmp_path, monkeypatch, found(1), found(1))
    scene.at(1.5)
    scene.at(3.2)
    assert scene.glanced.wait(60)
    assert scene.at(3.5, steps=20) is None and not scene.said
    scene.end_look()
    assert scene.at(5.0, steps=30) is None and not scene.said
    told = (tmp_path / "pace.jsonl").read_text()
    assert (
        "no progress for 2.2 s, 22 times the usual step: the others waited for rank 1, then the run continued" in told
    )


def stopped_and_moved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Scene, Path]:
    """A proven stop, after which a rank moves, but does no step."""
    scene = Scene(folder, monkeypatch, found(1), found(1))
    scene.at(1.5)
    scene.at(3.2)
    assert scene.glanced.wait(60)
    scene.end_look()
    assert scene.at(5.0) is not None
    stacks = folder / "stacks.jsonl"
    assert stacks.exists()
    scene.at(9.0, progress=8.9)
    assert scene.said[-1] == "the run continues"
    return scene, stacks


def test_a_standstill_is_kept_until_a_step_is_done(tmp_path, monkeypatch):
    """What ends it may be the time-out that fails the run: then it was the reason."""
    scene, stacks = stopped_and_moved(tmp_path, monkeypatch)
    scene.at(9.2, progress=8.9)
    scene.hangs.take_along(lambda: 9.2)
    assert stacks.exists()
    scene.at(9.5, steps=11, progress=9.4)
    assert not stacks.exists()
    assert "then the run continued" in (tmp_path / "pace.jsonl").read_text()


@pytest.mark.parametrize("end", ["well", "long after"])
def test_a_standstill_is_forgotten_where_the_run_ends_well_or_fails_much_later(tmp_path, monkeypatch, end):
    scene, stacks = stopped_and_moved(tmp_path, monkeypatch)
    if end == "well":
        scene.hangs.forget_moved()
    else:
        scene.at(9.1 + hangs.DOUBTFUL_S, progress=9.0 + hangs.DOUBTFUL_S)
    assert not stacks.exists()
    assert len((tmp_path / "pace.jsonl").read_text().splitlines()) == 1


def test_a_run_that_was_named_and_moves_after_all_is_said_to_go_on(tmp_path, monkeypatch):
    scene = Scene(tmp_path, monkeypatch, found(1), found(1, still=False))
    scene.at(1.5)
    scene.at(3.2)
    assert scene.glanced.wait(60)
    scene.at(3.5)
    scene.end_look()
    assert scene.at(5.0) is None
    assert scene.said[-1] == "the run continues"
    assert (tmp_path / "stacks.jsonl").exists()  # a rank may have moved because it fails
    scene.at(5.5, steps=11, progress=5.4)
    assert not (tmp_path / "stacks.jsonl").exists()
    assert "then the run continued" in (tmp_path / "pace.jsonl").read_text()


@pytest.mark.parametrize("early", [found(0, 1), found(1, still=None)])
def test_nobody_is_named_where_python_stacks_do_not_tell(tmp_path, monkeypatch, early):
    scene = Scene(tmp_path, monkeypatch, early, found(1))
    scene.at(1.5)
    scene.at(3.2)
    assert scene.glanced.wait(60)
    scene.at(3.5)
    assert not scene.said


@pytest.mark.parametrize("moves", [False, True])
def test_ranks_that_moved_while_a_look_gave_them_a_moment_are_not_told_to_be_silent(tmp_path, monkeypatch, moves):
    monkeypatch.setattr(hangs, "crowding", lambda: 1.0)
    scene = Scene(tmp_path, monkeypatch, found(0, 1), found(1, sure=False))
    scene.at(1.5)
    scene.at(3.2)
    assert scene.glanced.wait(60)
    assert scene.at(7.0) is None and not scene.hangs.is_quiet
    scene.end_look()
    stop = scene.at(8.5, steps=12 if moves else 10)
    assert (stop is None) is moves and not scene.said
    assert stop is None or not stop.proven


@pytest.mark.parametrize(
    ("looked", "waits"),
    [
        (found(1, sure=False), True),
        (found(1, still=None, sure=False), True),
        (found(1, still=False, sure=False), False),
        (found(1), False),
    ],
)
def test_a_look_gives_the_ranks_that_it_held_a_moment_to_move_where_nothing_is_proven(monkeypatch, looked, waits):
    slept: list[float] = []
    monkeypatch.setattr(rank_stacks, "look_at_live", lambda pids, **how: looked.seen)
    monkeypatch.setattr(rank_stacks, "_looked", lambda seen, ranks: looked)
    monkeypatch.setattr(rank_stacks, "eagerly", lambda: None)
    monkeypatch.setattr(rank_stacks.time, "sleep", slept.append)
    assert rank_stacks.look([Sign(pid=100, rank=0, at=1.0)]) is looked
    assert slept == ([rank_stacks.AFTERWARDS_S] if waits else [])


def test_what_is_named_early_is_redacted(tmp_path, monkeypatch):
    early = found(1)
    root = replace(early.report.findings[0], title="rank 1 was stuck in fetch(password=hunter2)")
    scene = Scene(tmp_path, monkeypatch, replace(early, report=replace(early.report, findings=(root,))), found(1))
    scene.at(1.5)
    scene.at(3.2)
    assert scene.glanced.wait(60)
    scene.at(3.5)
    assert "rank 1 was stuck" in scene.said[-1] and "hunter2" not in "".join(scene.said)
    assert "hunter2" not in (tmp_path / "events.jsonl").read_text()


def test_a_rank_on_a_warm_spare_belongs_to_the_same_job_as_one_that_was_started(monkeypatch):
    started = ProcessSeen(pid=100, command="train.py", still=True, job="127.0.0.1:29500", world=2)
    spare = ProcessSeen(pid=101, command="train.py", still=True, job="session 77")
    items = (
        Evidence(fact=started, origin=Origin(source="pid 100"), rank=Rank(index=0)),
        Evidence(fact=spare, origin=Origin(source="pid 101")),
    )
    monkeypatch.setattr(rank_stacks, "look_at_live", lambda pids, **how: EvidenceSet(items=items))
    monkeypatch.setattr(rank_stacks, "eagerly", lambda: None)
    monkeypatch.setattr(rank_stacks.time, "sleep", lambda seconds: None)
    looked = rank_stacks.look([Sign(pid=100, rank=0, at=1.0), Sign(pid=101, rank=1, at=1.0)])
    (job,) = jobs(looked.seen)
    assert [each.rank for each in job] == [0, 1]
