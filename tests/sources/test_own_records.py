# SPDX-License-Identifier: Apache-2.0
"""Black boxes and notes as evidence: of the newest run, as far as they can be read."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from keepstep.guard import own_rank
from keepstep.guard.box_writer import Box
from keepstep.model.evidence import CoverageState
from keepstep.model.facts.guard import RankDoing, RankLate
from keepstep.signals import blackbox
from keepstep.signals.blackbox import BoxPhase, RecordKind
from keepstep.sources.files.file_search import find_files
from keepstep.sources.recorded import own_records
from keepstep.sources.recorded.own_records import read_own


def box(
    folder: Path,
    rank: int,
    *,
    pid: int = 4_000_000,
    began: float | None = None,
    steps: int = 5,
    host: str = "elsewhere",
) -> Box:
    """A box of a process that is gone."""
    wall = time.time() if began is None else began
    who = {"rank": rank, "pid": pid, "host": host, "wall": wall, "monotonic": time.monotonic_ns(), "attempt": 0}
    found = Box(folder / f"rank{rank}-{pid}-0.box", who)
    found.write(RecordKind.PHASE, BoxPhase.COMPUTE, 0)
    for step in range(1, steps + 1):
        found.write(RecordKind.STEP, step, 10_000_000)
    return found


def read(folder: Path):  # type: ignore[no-untyped-def]
    return read_own(find_files([folder]).files)


def test_what_each_rank_did_last(tmp_path: Path) -> None:
    box(tmp_path, 0).write(RecordKind.PHASE, BoxPhase.INPUT, 5)
    box(tmp_path, 1, steps=7)
    items, coverage = read(tmp_path)
    facts = {e.who: e.fact for e in items if isinstance(e.fact, RankDoing)}
    assert {rank: (f.phase, f.steps, f.alive) for rank, f in facts.items()} == {
        0: ("input", 5, False),
        1: ("compute", 7, False),
    }
    assert [c.what for c in coverage if c.state is CoverageState.CHECKED] == ["2 black boxes"]


def test_only_the_newest_run_is_read(tmp_path: Path) -> None:
    box(tmp_path, 0, pid=4_000_001, began=time.time() - 5000, steps=99)
    box(tmp_path, 1, pid=4_000_002, began=time.time() - 5000, steps=99)
    box(tmp_path, 0, pid=4_000_003)
    line = {"fact": "RankStopped", "fields": {"phase": "input", "steps": 9, "seconds": 9.0}, "origin": {"source": "x"}}
    (tmp_path / "rank1-4000002-0.notes.jsonl").write_text(json.dumps(line) + "\n")
    items, _ = read(tmp_path)
    assert [(e.who, e.fact.steps) for e in items if isinstance(e.fact, RankDoing)] == [(0, 5)]
    assert {e.who for e in items} == {0}, "notes of the earlier run are passed over with its box"


def test_a_helper_that_came_later_and_never_trained_does_not_take_its_ranks_place(tmp_path: Path) -> None:
    trained = box(tmp_path, 0, pid=4_000_001)
    box(tmp_path, 0, pid=4_000_002, began=time.time() + 1, steps=0)
    trained.write(RecordKind.STEP, 6, 10_000_000)
    items, _ = read(tmp_path)
    assert [(e.who, e.fact.steps) for e in items if isinstance(e.fact, RankDoing)] == [(0, 6)]


def test_the_compiler_of_torch_is_a_helper_of_its_rank() -> None:
    worker = "lib/python3.11/site-packages/torch/_inductor/compile_worker/__main__.py"
    assert own_rank.is_child_of_training(["python", worker, "--workers=2"])
    assert own_rank.is_child_of_training(["python", "-m", "torch._inductor.compile_worker"])
    assert not own_rank.is_child_of_training(["train.py", "--workers=2"])


def test_damage_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    path = box(tmp_path, 0).path
    path.write_bytes(path.read_bytes()[:5000])
    (tmp_path / "rank1-1-0.box").write_bytes(b"KSBOX\x00\x00\x01 and then nothing")
    good = {"fact": "GuardPart", "fields": {"part": "contracts", "why": "gone"}, "origin": {"source": "x"}, "at": 1.0}
    (tmp_path / "rank0-4000000-0.notes.jsonl").write_text(json.dumps(good) + '\n{"fact": "GuardPart", "fie')
    items, coverage = read(tmp_path)
    assert any(isinstance(e.fact, RankDoing) for e in items)
    told = {c.what: c.why for c in coverage}
    assert "shorter than a header" in told["black box rank1-1-0.box"]
    assert told["1 line of rank0-4000000-0.notes.jsonl"] == "damaged"
    assert told["guard: contracts"] == "gone"
    assert "damaged" in told["1 black box"]


def test_a_rank_that_is_always_done_last_is_late(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    boxes = [box(tmp_path, rank, pid=5_000_000 + rank, steps=0) for rank in range(3)]
    for step in range(1, 31):
        for rank, late in ((0, 0), (1, 2), (2, 400)):
            now[0] = (step * 1000 + late) * 1_000_000
            boxes[rank].write(RecordKind.STEP, step, 10**9)
    items, _ = read(tmp_path)
    late = [(e.who, e.fact.phase, round(e.fact.seconds, 3)) for e in items if isinstance(e.fact, RankLate)]
    assert late == [(2, "compute", 0.4)]


def test_a_rank_that_waits_for_its_batches_is_late_there(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    boxes = [box(tmp_path, rank, pid=5_000_000 + rank, steps=0) for rank in range(2)]
    for step in range(1, 31):
        for rank, waits in ((0, 5), (1, 700)):
            now[0] = step * 10**9
            boxes[rank].write(RecordKind.PHASE, BoxPhase.INPUT, step)
            now[0] += waits * 1_000_000
            boxes[rank].write(RecordKind.PHASE, BoxPhase.COMPUTE, step)
            now[0] = (step + 1) * 10**9 - 1
            boxes[rank].write(RecordKind.STEP, step, 10**9)
    items, _ = read(tmp_path)
    assert [(e.who, e.fact.phase) for e in items if isinstance(e.fact, RankLate)] == [(1, "input")]


def test_ranks_that_keep_step_are_not_late(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    boxes = [box(tmp_path, rank, pid=5_000_000 + rank, steps=0) for rank in range(2)]
    for step in range(1, 31):
        for rank in range(2):
            now[0] = (step * 100 + 5 * ((rank + step) % 2)) * 1_000_000
            boxes[rank].write(RecordKind.STEP, step, 10**8)
    assert not any(isinstance(e.fact, RankLate) for e in read(tmp_path)[0])


def test_ranks_of_hosts_whose_clocks_differ_are_compared_by_what_they_lose(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    now, ahead_ns = [0], 40 * 10**9
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    began = time.time()
    boxes = [
        box(tmp_path, rank, pid=5_000_000 + rank, steps=0, host=f"host{rank // 2}", began=began + 40 * (rank // 2))
        for rank in range(4)
    ]
    held = [0, 0, 0, 0]
    for step in range(1, 101):
        for rank in range(4):
            here = step * 10**8 + ahead_ns * (rank // 2)
            now[0] = here + 5_000_000 * (rank % 2)
            boxes[rank].write(RecordKind.STEP, step, 10**8)
            held[rank] += 80_000_000 if rank == 3 else 1_000_000
            if step % 10 == 0:
                boxes[rank].write(RecordKind.HELD, held[rank], step * 5_000_000)
    late = [e for e in read(tmp_path)[0] if isinstance(e.fact, RankLate)]
    assert [(e.who, e.fact.held, round(e.fact.seconds, 3)) for e in late] == [(3, True, 0.08)]


def test_a_living_rank_is_known_by_its_start_though_its_clock_is_wrong(tmp_path: Path) -> None:
    who = {**own_rank.of_process(own_rank.Identity(rank=0)), "wall": time.time() - 3600}
    Box(tmp_path / "rank0-1-0.box", who).write(RecordKind.STEP, 1, 1)
    Box(tmp_path / "rank1-1-0.box", {**who, "rank": 1, "started": who["started"] - 1}).write(RecordKind.STEP, 1, 1)
    assert {e.who: e.fact.alive for e in read(tmp_path)[0] if isinstance(e.fact, RankDoing)} == {0: True, 1: False}


def test_of_many_boxes_the_newest_records_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(3):
        box(tmp_path, rank, steps=50).write(RecordKind.PHASE, BoxPhase.INPUT, 50)
    whole, _ = read(tmp_path)
    monkeypatch.setattr(own_records, "MOST_WHOLE", 2)
    monkeypatch.setattr(own_records, "RECORDS", 60)
    monkeypatch.setattr(own_records, "LEAST_RECORDS", 10)
    read_box, lengths = blackbox.read, []

    def counted(data: bytes, most: int | None) -> blackbox.BlackBox:
        found = read_box(data, most)
        lengths.append(len(found.records))
        return found

    monkeypatch.setattr(own_records.blackbox, "read", counted)
    newest, _ = read(tmp_path)
    assert lengths == [20, 20, 20] and [e.fact for e in newest] == [e.fact for e in whole]
