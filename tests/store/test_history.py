# SPDX-License-Identifier: Apache-2.0
"""The history of a run: what is written second by second is read back, whole, torn, coarse and of several hosts."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import BinaryIO

import pytest

from keepstep.base.safe_files import open_regular
from keepstep.signals.blackbox import BoxPhase
from keepstep.store.history import reader as history_reader
from keepstep.store.history import writer as history_writer
from keepstep.store.history.reader import IDLE_AT_MOST, MOST_OPEN, NOBODY, READINGS, WAIT_SHARES, History, open_history
from keepstep.store.history.writer import HistoryWriter

AT = 1_794_990_000.0
COMPUTE, INPUT = float(BoxPhase.COMPUTE), float(BoxPhase.INPUT)


def written(folder: Path, seconds: int, *, attempt: int = 0, host: str = "a", ranks: range = range(2)) -> History:
    """Rank 1 waits for a batch in second 30; the memory of rank 0 grows by one byte a second."""
    place = folder / f"attempt-{attempt}"
    place.mkdir(exist_ok=True)
    writer = HistoryWriter(place, host)
    for second in range(1, seconds + 1):
        slow = {1: float(second == 30)}
        values = {
            rank: {
                "phase": INPUT if slow.get(rank) else COMPUTE,
                "in_input": slow.get(rank, 0.0),
                "in_compute": 1 - slow.get(rank, 0.0),
                "wait": slow.get(rank, 0.0),
                "memory": float(1000 + second) if rank == 0 else 5.0,
                "step": float(second * 10),
            }
            for rank in ranks
        }
        writer.add(AT + second, values, {host: {"host_cpu": 0.5}})
    writer.close()
    return open_history(folder)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    history = written(tmp_path, 100)
    assert history.span == (AT, AT + 100)
    assert (history.ranks, history.hosts, history.gpus) == ([0, 1], ["a"], [])
    points = history.series("memory", 0, *history.span, points=100)
    assert [point.mean for point in points] == [float(1000 + second) for second in range(1, 101)]
    assert history.last(0)["memory"] == (1100.0, AT + 100)
    assert history.last("a")["host_cpu"] == (0.5, AT + 100)
    assert history.series("memory", 7, *history.span, points=10) == []


def test_coarse_points_keep_the_spread(tmp_path: Path) -> None:
    history = written(tmp_path, 100)
    (point,) = history.series("memory", 0, AT, AT + 100, points=1)
    assert (point.low, point.high) == (1001.0, 1100.0)
    assert point.mean == pytest.approx(1050.5, abs=0.5)


def test_one_bad_second_of_one_rank_shows_in_a_single_column(tmp_path: Path) -> None:
    history = written(tmp_path, 100, ranks=range(64))
    grid = history.grid(AT, AT + 100, columns=1)
    assert grid.ranks == list(range(64))
    waits = [WAIT_SHARES[row[0]] for row in grid.wait]
    assert waits.index(1.0) == 1 and sum(waits) == 1.0
    assert [list(row).count(BoxPhase.INPUT) for row in history.grid(AT, AT + 100, columns=100).phase[:3]] == [0, 1, 0]


def test_nothing_is_known_of_a_rank_that_was_gone(tmp_path: Path) -> None:
    written(tmp_path, 20, host="a", ranks=range(1))
    history = written(tmp_path, 40, host="b", ranks=range(1, 2))
    grid = history.grid(AT, AT + 40, columns=4)
    assert list(grid.phase[0]) == [BoxPhase.COMPUTE, BoxPhase.COMPUTE, NOBODY, NOBODY]
    assert history.last(0)["step"][1] == AT + 20, "its age shows"


def test_fine_tiles_go_and_coarse_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = tuple(each._replace(file_s=20, kept_s=40.0) for each in history_writer.LEVELS[:2])
    monkeypatch.setattr(history_writer, "LEVELS", (*short, *history_writer.LEVELS[2:]))
    history = written(tmp_path, 600)
    names = os.listdir(tmp_path / "attempt-0" / "history")
    assert 0 < sum("-1s-" in name for name in names) <= 5
    points = history.series("memory", 0, *history.span, points=600)
    assert points[0].time < AT + 60 and points[-1].mean == 1600.0, "the past is coarse, the present fine"
    assert all(a.time < b.time for a, b in itertools.pairwise(points))


def test_a_torn_or_damaged_tile_is_skipped(tmp_path: Path) -> None:
    written(tmp_path, 10)
    (path,) = (tmp_path / "attempt-0" / "history").glob("a-1s-*")
    whole = path.read_bytes()
    for other in (tmp_path / "attempt-0" / "history").glob("a-[16]0*"):
        other.unlink()
    path.write_bytes(whole[:-5])
    assert len(open_history(tmp_path).series("memory", 0, AT, AT + 10, points=10)) >= 9
    half = len(whole) // 2
    path.write_bytes(whole[:half] + b"\xff" + whole[half + 1 :])
    assert len(open_history(tmp_path).series("step", 0, AT, AT + 10, points=10)) == 9
    path.write_bytes(b"")
    assert open_history(tmp_path).span == (0.0, 0.0)


def test_it_survives_a_kill(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").mkdir()
    code = f"""
import os, signal
from pathlib import Path
from typing import BinaryIO
from keepstep.store.history.writer import HistoryWriter
writer = HistoryWriter(Path({str(tmp_path)!r}) / "attempt-0", "a")
for second in range(1, 26):
    writer.add({AT} + second, {{0: {{"step": float(second)}}}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -signal.SIGKILL
    history = open_history(tmp_path)
    assert history.span == (AT, AT + 25) and history.last(0)["step"] == (25.0, AT + 25)
    assert history.grid(AT, AT + 25, columns=5).phase == [bytes([NOBODY]) * 5], "it has no phase"


def test_attempts_and_hosts_come_together_and_clocks_are_corrected(tmp_path: Path) -> None:
    for number, (host, ahead) in enumerate((("a", 0.0), ("b", 3600.0))):
        node = tmp_path / "attempt-1" / f"node{number}"
        node.mkdir(parents=True)
        (node / "node.json").write_text(json.dumps({"schema": "keepstep.node/1", "ahead_s": ahead}))
        writer = HistoryWriter(node, host)
        for second in range(1, 11):
            writer.add(AT + 100 + ahead + second, {number: {"step": 1.0}}, {host: {"swap": 0.0}})
        writer.close()
    history = written(tmp_path, 50)
    assert history.hosts == ["a", "b"] and history.span == (AT, AT + 110)
    assert [each.number for each in history.attempts] == [0, 1]
    assert history.attempts[1].start == pytest.approx(AT + 100)


def test_refresh_reads_what_was_added(tmp_path: Path) -> None:
    history = written(tmp_path, 10)
    before = history.span
    writer = HistoryWriter(tmp_path / "attempt-0", "a")
    writer.add(AT + 11, {0: {"step": 110.0}})
    history.refresh()
    assert before[1] == AT + 10 and history.span[1] == AT + 11


def test_shares_are_exact_to_half_a_percent(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").mkdir()
    writer = HistoryWriter(tmp_path / "attempt-0", "a")
    for second, share in enumerate((0.0, 0.1, 0.5, 0.999, 1.0, math.nan)):
        writer.add(AT + 1 + second, {0: {"wait": share, "memory": 1.0}})
    points = open_history(tmp_path).series("wait", 0, AT, AT + 6, points=6)
    assert [point.mean for point in points] == pytest.approx([0.0, 0.1, 0.5, 0.999, 1.0], abs=0.005)


def test_no_two_readings_share_a_number() -> None:
    assert len({each.number for each in READINGS.values()}) == len(READINGS)


_SPREAD = {"B": 1.0, "b": 7.0, "f": 1e9, "d": 1e6}


def test_512_ranks_take_less_than_300_mb_a_day(tmp_path: Path) -> None:
    """By the size of a tile of each width, and how many of them there are after a day."""
    (tmp_path / "attempt-0").mkdir()
    writer, chance = HistoryWriter(tmp_path / "attempt-0", "a"), random.Random(1)
    for second in range(1, 121):
        ranks = {
            rank: {name: chance.random() * _SPREAD[each.type] for name, each in READINGS.items() if each.of == "rank"}
            for rank in range(512)
        }
        writer.add(AT + second, ranks)
    writer.close()
    a_day = 0.0
    for level in history_writer.LEVELS:
        files = list((tmp_path / "attempt-0" / "history").glob(f"a-{level.width_s}s-*"))
        tiles = -(-120 // level.width_s)
        kept = min(level.kept_s + level.file_s, 86400.0) / level.width_s
        a_day += sum(path.stat().st_size for path in files) / tiles * kept
    assert 50e6 < a_day < 300e6, "all readings of all ranks, each a random number: what cannot be packed"


def test_a_file_that_grows_is_read_on_and_one_that_is_replaced_anew(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, "a")
    writer.add(AT + 1, {0: {"step": 1.0}})
    history = open_history(tmp_path)
    (path,) = (tmp_path / "history").iterdir()
    first = path.read_bytes()
    writer.add(AT + 2, {0: {"step": 2.0}})
    with path.open("ab") as stream:
        stream.write(first[:-9])  # torn
    writer.add(AT + 3, {0: {"step": 3.0}})
    history.refresh()
    assert history.last(0)["step"] == (3.0, AT + 3) and history.span == (AT, AT + 3)
    (tmp_path / "other").write_bytes(first)
    (tmp_path / "other").replace(path)
    history.refresh()
    assert history.last(0)["step"] == (1.0, AT + 1)


def test_a_large_tile_that_is_damaged_says_nothing(tmp_path: Path) -> None:
    writer, chance = HistoryWriter(tmp_path, "a"), random.Random(1)
    for second in (1, 2):
        writer.add(AT + second, {rank: {"memory": chance.random(), "cpu": chance.random()} for rank in range(4096)})
    (path,) = (tmp_path / "history").iterdir()
    data = bytearray(path.read_bytes())
    data[-5000] ^= 1
    path.write_bytes(data)
    assert {each.values["memory"][1] for each in open_history(tmp_path).newest("rank").values()} == {AT + 1}


def test_many_small_tiles_take_little_memory_and_each_file_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, seconds, opened = MOST_OPEN + 8, 40, []
    for host in range(hosts):
        folder = tmp_path / "attempt-0" / f"node{host}"
        folder.mkdir(parents=True)
        writer = HistoryWriter(folder, f"h{host}")
        for second in range(1, seconds + 1):
            values = {each.name: 0.5 for each in READINGS.values() if each.of == "rank"} | {"wait": float(host == 7)}
            writer.add(AT + second, {rank: values for rank in (2 * host, 2 * host + 1)})

    def counting(path: Path, **how: bool) -> BinaryIO:
        opened.append(path)
        return open_regular(path, **how)

    monkeypatch.setattr(history_reader, "open_regular", counting)
    tracemalloc.start()
    try:
        history = open_history(tmp_path)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept / (hosts * seconds) < 1000.0, "one with a table of its columns takes several thousand"
    opened.clear()
    grid = history.grid(*history.span, columns=seconds)
    files = set((tmp_path / "attempt-0").rglob("*-1s-*.tiles"))
    assert len(opened) <= len(files) and files.issuperset(opened)
    assert len(grid.ranks) == 2 * hosts
    assert {rank for rank, row in zip(grid.ranks, grid.wait, strict=True) if WAIT_SHARES[max(row)] == 1.0} == {14, 15}


def test_a_rank_whose_thread_does_not_run_waits_and_is_never_taken_to_stand_still(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, "here")
    for second in range(10):
        busy = {0: 0.2, 1: 1.0, 2: 0.0}
        writer.add(AT + second, {rank: {"phase": 3.0, "wait": 0.0, "busy": share} for rank, share in busy.items()}, {})
    writer.close()
    history = open_history(tmp_path)
    waits = [[WAIT_SHARES[each] for each in row] for row in history.grid(*history.span, 5).wait]
    assert [pytest.approx(row[2], abs=0.01) for row in waits] == [0.8, 0.0, IDLE_AT_MOST]
