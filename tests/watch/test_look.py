# SPDX-License-Identifier: Apache-2.0
"""What a run folder shows: of real runs that are live, finished, failed, copied, and killed together with keepstep."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from keepstep.analyze.question import run_place
from keepstep.errors import UserError
from keepstep.signals.blackbox import BlackBox, BoxPhase, Record, RecordKind, doing
from keepstep.signals.goodput import Bucket, Goodput
from keepstep.store import run_folders
from keepstep.store.history.reader import open_history
from keepstep.store.history.writer import HistoryWriter
from keepstep.store.run_folders import AttemptSaid, read_manifest
from keepstep.watch.guard_folder import manifest_of_guards
from keepstep.watch.history_past import OLD_S, HistoryPast
from keepstep.watch.host_table import hosts_in
from keepstep.watch.look import RunLook
from keepstep.watch.past import Cell, Grid, fold, pack
from keepstep.watch.problems import problems, slow_rank
from keepstep.watch.rank_boxes import RankBox
from keepstep.watch.recorded_past import RecordedPast
from keepstep.watch.run_view import RunView
from keepstep.watch.top.loop import lines
from keepstep.watch.top.screen import Look
from tests.supervise.starting import Running, wait_for
from tests.watch.real_runs import start


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Running]:
    run = start(tmp_path / "live", "", steps=100_000)
    yield run
    run.kill()


def kinds(folder: Path) -> dict[int, set[int]]:
    """What each rank did at some time."""
    look = RunLook(folder)
    look.see()
    past = look.past()
    grid = past.grid(*past.span, 200)
    return {rank: {cell & 15 for cell in row} for rank, row in zip(grid.ranks, grid.rows, strict=True)}


def is_about_the_error(view: RunView) -> bool:
    first = view.problems[0]
    return first.ranks == (1,) and first.cause == "user.code_exception" and "KeyError" in first.title


def test_a_failed_run_shows_its_cause_first_with_rank_time_and_decision(failed: Running) -> None:
    view = RunLook(failed.run).see()
    first = view.problems[0]
    assert view.state == "failed" and is_about_the_error(view)
    assert first.since is not None and view.began < first.since < view.at
    assert first.decided.startswith("ended the run: ") and first.cost
    assert view.ranks[0].rank == 1 and view.ranks[0].blamed and view.ranks[0].steps == 20
    assert Cell.COMPUTE in kinds(failed.run)[0]


def test_a_launcher_counts_for_the_ranks_that_it_started(failed: Running, tmp_path: Path) -> None:
    shutil.copytree(failed.run, tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "ranks": 1}))
    assert RunLook(tmp_path / "run").see().world == RunLook(failed.run).see().world > 1


def test_a_loss_that_no_longer_improves_is_noted_without_alarm(tmp_path: Path) -> None:
    script = 'for step in range(200): print(f"step {step} loss: {2.1 + step % 7 / 100 - (step == 20)}")'
    run = Running(tmp_path, "-n", "1", script=script)
    assert run.finish() == 0, run.err
    view = RunLook(run.run).see()
    assert not view.problems and any("the best loss was 179 steps ago" in said for said in view.said)


def test_a_folder_of_guards_alone_names_the_rank_and_its_error(failed: Running, tmp_path: Path) -> None:
    shutil.copytree(failed.run / "attempt-0" / "guard", tmp_path / "guards")
    view = RunLook(tmp_path / "guards").see()
    assert (view.state, view.world, view.command) == ("ended", 2, "")
    assert view.problems[0].ranks == (1,) and "KeyError" in view.problems[0].title
    assert view.ranks[0].rank == 1 and view.ranks[0].steps == 20
    assert Cell.COMPUTE in kinds(tmp_path / "guards")[0]
    with pytest.raises(UserError, match="nor boxes of guards"):
        RunLook(tmp_path)


def test_what_was_said_of_guards_while_they_lived_is_not_the_last_word(
    failed: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards, whole = tmp_path / "guards", failed.run / "attempt-0" / "guard"
    shutil.copytree(whole, guards, ignore=shutil.ignore_patterns("*.jsonl", "*.exit", "history"))
    with monkeypatch.context() as alive:
        alive.setattr("keepstep.watch.rank_boxes.is_alive", lambda who: True)
        look = RunLook(guards)
        before = look.see()
        assert before.alive and not any("KeyError" in each.title for each in before.problems)
    shutil.copytree(whole, guards, dirs_exist_ok=True)
    after = look.see()
    assert not after.alive and "KeyError" in after.problems[0].title


def test_ranks_that_stop_are_explained_before_it_is_due_again(
    failed: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards, whole, dead = tmp_path / "guards", failed.run / "attempt-0" / "guard", set[object]()
    shutil.copytree(whole, guards, ignore=shutil.ignore_patterns("*.jsonl", "*.exit", "history"))
    monkeypatch.setattr("keepstep.watch.rank_boxes.is_alive", lambda who: who["rank"] not in dead)
    for name, value in (("RESTS", 1e9), ("RESTS_IF_STOPPED", 0.0), ("LEAST_REST_S", 0.0)):
        monkeypatch.setattr(f"keepstep.watch.look.{name}", value)
    look = RunLook(guards)
    look.see()
    shutil.copytree(whole, guards, dirs_exist_ok=True)
    assert not any("KeyError" in each.title for each in look.see().problems), "it is not due"
    dead.add(1)
    found = look.see()
    assert found.alive and "KeyError" in found.problems[0].title


def test_without_a_run_the_last_one_is_the_newest_of_guards_alone(
    failed: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no run here yet"):
        run_place("last")
    for number, name in enumerate(("later", "earlier", "empty")):
        guards = tmp_path / ".keepstep" / "guard" / name
        shutil.copytree(failed.run / "attempt-0" / "guard", guards)
        os.utime(guards, (1e9 - number, 1e9 - number))
    for box in guards.glob("*.box"):
        box.unlink()
    assert run_place("last").name == "later"


def test_guards_alone_began_when_their_processes_did(failed: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    guards = failed.run / "attempt-0" / "guard"
    whole = manifest_of_guards(guards)
    monkeypatch.setattr("keepstep.watch.rank_boxes.NEWEST", 5)  # the ring has dropped the others
    cut = manifest_of_guards(guards)
    assert whole is not None and cut is not None and whole.began == cut.began < (cut.ended or 0.0)


def test_a_copied_folder_shows_the_same(failed: Running, tmp_path: Path) -> None:
    shutil.copytree(failed.run, tmp_path / "copy")
    first, copied = RunLook(failed.run).see(), RunLook(tmp_path / "copy").see()
    assert copied.problems == first.problems and copied.ranks == first.ranks and copied.at == first.at


def test_a_folder_without_reports_is_explained_and_nothing_is_written(failed: Running, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(failed.run, copy)
    for report in copy.rglob("report.json"):
        report.unlink()
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    assert is_about_the_error(RunLook(copy).see())
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


def test_damaged_files_hide_nothing_else(failed: Running, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(failed.run, copy)
    for box in copy.rglob("*.box"):
        box.write_bytes(box.read_bytes()[:5000])
    for tiles in copy.rglob("history/*"):
        tiles.write_bytes(tiles.read_bytes()[:-7] + b"\xff" * 50)
    next(copy.rglob("report.json")).write_text('{"schema": "keepstep.report/1", "findings": [3, {"ranks": "x"}]}')
    look = RunLook(copy)
    assert look.see().state == "failed"
    look.past().series("memory", 0.0, 2e9, 10)


def test_a_live_run_shows_its_steps_and_then_what_killed_it(live: Running) -> None:
    wait_for(lambda: read_manifest(live.run))
    look = RunLook(live.run)
    wait_for(lambda: (view := look.see()).steps > 20 and len(view.ranks) == 2)
    view = look.see()
    assert view.state == "running" and not view.problems and view.ended is None
    assert {each.state for each in view.ranks} == {"alive"} and max(each.age_s for each in view.ranks) < 30
    os.kill(live.process.pid, 9)
    live.process.wait()
    wait_for(lambda: look.see().state == "killed")
    assert look.see().ended is not None


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        RunLook(tmp_path)


def test_one_bad_rank_of_thousands_stays_visible() -> None:
    good, bad = bytes([pack(Cell.COMPUTE, 0.2)]) * 50, bytearray([pack(Cell.COMPUTE, 0.2)]) * 50
    bad[30] = pack(Cell.GONE, None)
    rows = tuple(bytes(bad) if rank == 2777 else good for rank in range(4096))
    folded = fold(Grid(tuple(range(4096)), 0.0, 1.0, rows), 300)
    assert len(folded) <= 300
    assert [span for span, row in folded if row[30] & 15 == Cell.GONE] == [
        span for span, _ in folded if span[0] <= 2777 <= span[1]
    ]


def test_a_strangers_report_cannot_break_the_list() -> None:
    said = [AttemptSaid(number=0, began=1.0, ended=2.0, status=1)]
    finding = {"ranks": [1e9, -1, "2"], "title": 3, "evidence": [{"at": "soon"}, 7]}
    report = {"findings": [finding], "hosts": []}
    assert problems({0: report}, said, world=2, costs="")[0].ranks == ()


def test_a_hang_that_left_no_cause_behind_is_told_as_it_was_decided() -> None:
    hung = AttemptSaid(
        number=0, began=1.0, ended=9.0, status=1, happened="suspected", decision="rank 1 hangs: no budget"
    )
    (first,) = problems({0: {"findings": []}}, [hung], world=2, costs="")
    assert first.title == "rank 1 hangs" and first.ranks == (1,) and first.sure == "hypothesis"
    assert first.cause == "sync.deadlock_or_hang_waiting_rank" and first.decided == "ended the run: no budget"
    again = replace(hung, decision="rank 1 hangs; 1 attempt in a row made no progress")
    (first,) = problems({0: {"findings": []}}, [again], world=2, costs="")
    assert first.title == "rank 1 hangs" and first.decided == "ended the run: 1 attempt in a row made no progress"
    known = {"title": "rank 0 raised KeyError", "severity": "fatal", "ranks": [0]}
    assert [each.title for each in problems({0: {"findings": [known]}}, [hung], world=2, costs="")] == [known["title"]]


def recorded(rank: int, until_s: int, goodbye: int | None = None) -> RankBox:
    """A rank that stepped once a second."""
    records = [Record(n + 1, n * 10**9, RecordKind.STEP, n, 10**9) for n in range(until_s + 1)]
    if goodbye is not None:
        records.append(Record(until_s + 2, until_s * 10**9, RecordKind.GOODBYE, goodbye, until_s))
    box = BlackBox({"wall": 1000.0, "monotonic": 0}, tuple(records))
    return RankBox(rank, "host", box, doing(tuple(reversed(records))), False, 0.0, False, 1000.0 + until_s)


def test_a_rank_is_gone_if_others_went_on_and_not_if_it_was_ended_with_them(tmp_path: Path) -> None:
    boxes = [recorded(0, 20), recorded(1, 10), recorded(2, 10, goodbye=1), recorded(3, 10, goodbye=0)]
    past = RecordedPast({0: boxes}, {0: 1025.0}, 1030.0, HistoryPast(open_history(tmp_path), (), 0.0))
    rows = past.grid(*past.span, 25).rows
    gone = [{place for place, cell in enumerate(row) if cell & 15 == Cell.GONE} for row in rows]
    assert gone == [set(), set(range(10, 21)), set(range(10, 21)), set()]


def test_a_rank_whose_host_is_gone_shows_its_host_and_how_old_that_is(tmp_path: Path) -> None:
    run = run_folders.create(tmp_path, ["train.py"], name="two", ranks=2, version="made")
    run.manifest.attempts = [AttemptSaid(number=0, began=1000.0, ended=1100.0, status=1)]
    run.manifest.state, run.manifest.began, run.manifest.ended = "failed", 1000.0, 1100.0
    run.save()
    for rank, seconds in ((0, 100), (1, 40)):
        node = run.attempt(0) / f"node{rank}"
        node.mkdir()
        (node / "node.json").write_text(json.dumps({"schema": "keepstep.node/1", "host": f"host-{rank}"}))
        writer = HistoryWriter(node, "any")
        for second in range(1, seconds + 1):
            values = {rank: {"phase": float(BoxPhase.COMPUTE), "step": float(second)}}
            writer.add(1000.0 + second, values, {f"own-{rank}": {"host_memory_share": 0.5}})
    view = RunLook(run.path).see()
    gone, alive = view.ranks
    assert (gone.rank, gone.host, gone.state, gone.age_s, gone.steps) == (1, "host-1", "gone", 60.0, 40)
    assert (alive.rank, alive.host, alive.state, alive.age_s, alive.steps) == (0, "host-0", "ended", 0.0, 100)
    assert [(each.host, each.ranks, each.age_s) for each in view.hosts] == [("host-1", 1, 60.0), ("host-0", 1, 0.0)]
    assert "host-1 · memory 50% · and 1 more host" in lines(RunLook(run.path), Look())


def test_a_host_whose_memory_rises_says_when_it_is_full(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").mkdir()
    now, shares = 10_000.0, {"a": lambda second: 0.6 + second / 2000, "b": lambda second: 0.6 + second % 7 / 100}
    for host, share in shares.items():
        writer = HistoryWriter(tmp_path / "attempt-0", host)
        for second in range(600):
            writer.add(now - 600 + second, {}, {host: {"host_memory_share": share(second)}})
    rising, steady = hosts_in(open_history(tmp_path), [], now, is_live=True)
    assert rising.host == "a" and rising.full_in_s == pytest.approx(200, rel=0.05)
    assert steady.host == "b" and steady.full_in_s is None


def test_a_rank_of_another_host_is_not_gone_because_its_last_seconds_are_on_their_way(tmp_path: Path) -> None:
    writer, compute = HistoryWriter(tmp_path, "here"), {"phase": float(BoxPhase.COMPUTE), "in_compute": 1.0}
    for second in range(100):
        writer.add(1000.0 + second, {rank: compute for rank in (0, 1) if rank == 0 or second < 90}, {})
    writer.close()
    for live, seen in ((True, Cell.UNKNOWN), (False, Cell.GONE)):
        grid = HistoryPast(open_history(tmp_path), (), 1100.0, live=live).grid(1000.0, 1100.0, 100)
        assert grid.rows[1][-2] & 15 == seen and grid.rows[0][-2] & 15 == Cell.COMPUTE
    assert OLD_S > 10.0


def test_the_rank_that_others_wait_for_is_named_if_it_is_mostly_one() -> None:
    found = Goodput(4, 200.0, {Bucket.PRODUCTIVE: 400.0}, waited_for={(3, "computes longer than the others"): 100.0})
    slow = slow_rank(found, "RUN", live=True)
    assert slow is not None and slow.ranks == (3,) and slow.cause == "slow.straggler"
    assert slow.title == "rank 3 computes longer than the others: the others waited for it in 20% of the training"
    assert slow.cost == "0.8 rank-hours an hour (20% of 4 ranks)"
    found.waited_for[2, "waits longer for its batches"] = 60.0  # now one, now the other
    assert slow_rank(found, "RUN", live=True) is None
    assert slow_rank(replace(found, waited_for={(3, "computes longer"): 20.0}), "RUN", live=True) is None
