# SPDX-License-Identifier: Apache-2.0
"""Very many files: little memory, a report of bounded length, progress, and a manifest that does not grow for ever."""

from __future__ import annotations

import io
import json
import os
import re
import time
import tracemalloc
from pathlib import Path

import pytest

from keepstep.check.data.report import manifest as manifests
from keepstep.check.data.report import progress as progresses
from keepstep.check.data.report.duplicates import Alike
from keepstep.check.data.report.manifest import Manifest
from keepstep.check.data.report.progress import ReadProgress
from keepstep.check.data.report.summary import Summary
from keepstep.check.data.spool import Broken, Units
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead, unit_to_list
from keepstep.parse.formats.data.bad import Bad
from tests.check.data.files import report_on, rules_of

MANY = 30_000


def test_many_files_in_little_time(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number}.jsonl").write_bytes(b'{"a": %d, "b": "%d"}\n' % (number, number) * 5)
    (tmp_path / "1500.jsonl").write_bytes(b"bad\n")
    began = time.monotonic()
    report = report_on(tmp_path)
    assert time.monotonic() - began < 60
    assert "1500.jsonl" in report.findings[0].title
    assert rules_of(report) == ["DAT301"]


def test_what_is_kept_about_each_file_takes_a_few_bytes() -> None:
    tracemalloc.start()
    try:
        units, broken = Units(), Broken()
        summary, alike = Summary(ReadRequest()), Alike(MANY)
        for first in range(0, MANY, 500):
            units.take(
                [unit_to_list(DataUnit(f"/data/{n:07d}.jsonl", "/data", 100, n)) for n in range(first, first + 500)]
            )
        for unit in units:
            looked = UnitRead("jsonl", 1, digest=f"blake2b:{unit.number // 2}")
            if unit.number % 2:
                looked.broken(Bad("corrupt", "the line is not JSON", 0, 0))
                broken.add(unit, looked)
            summary.add(unit, looked)
            alike.add(unit, looked)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 30 << 20, f"{used / MANY:.0f} bytes per file"
    assert (len(units), len(broken)) == (MANY, MANY // 2)
    assert [unit.number for unit, _ in broken][:3] == [1, 3, 5]
    collected = summary.collected(0)
    assert len(collected.evidence) <= 10_001
    assert any("5,000 further problems" in each.what for each in collected.coverage)


def test_units_are_taken_back_to_a_mark() -> None:
    units = Units()
    units.take([unit_to_list(DataUnit("a", "", 5))])
    mark = units.mark()
    units.take([unit_to_list(DataUnit("b", "", 7))])
    units.back_to(mark)
    units.take([unit_to_list(DataUnit("c", "", 1, kind="mds", about="{}"))])
    assert [(unit.path, unit.number, unit.kind) for unit in units] == [("a", 0, ""), ("c", 1, "mds")]
    assert (len(units), units.size_bytes) == (2, 6)


def test_copies_are_found_by_long_hashes_and_short_ones_are_not_trusted() -> None:
    every = [DataUnit(f"{n}.bin", "", 1000, number=n) for n in range(6)]
    alike = Alike(len(every))
    for unit, digest in zip(
        every, ("blake2b:1", "blake2b:1", "crc32c:2", "crc32c:2", "crc32c:2", "blake2b:3"), strict=True
    ):
        alike.add(unit, UnitRead("tokens", 10, digest=digest))
    asked: list[str] = []

    def hashed(units: list[DataUnit]) -> list[tuple[DataUnit, UnitRead]]:
        asked.extend(unit.path for unit in units)
        return [(unit, UnitRead("", digest=f"blake2b:{'x' if unit.number < 4 else 'y'}")) for unit in units]

    found = [evidence.fact for evidence in alike.evidence([(unit, 10) for unit in every], hashed)]
    assert asked == ["2.bin", "3.bin", "4.bin"]
    assert [fact.files for fact in found] == [("0.bin", "1.bin"), ("2.bin", "3.bin")]  # type: ignore[attr-defined]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_has_an_estimate_also_for_files_without_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progresses.time, "monotonic", lambda: now)
    screen = _Terminal()
    shown = ReadProgress(screen)
    now += 1
    shown.found(1200)
    assert screen.getvalue().endswith("1,200 files found")
    shown.begin(4000, 0)
    for _ in range(1000):
        shown.done(0, unchanged=True)
    for _ in range(1000):
        now += 0.01
        shown.done(0)
    assert re.search(r"2,000 of 4,000 files, 0 B of 0 B, 100 files/s, 20 s left$", screen.getvalue())


def test_a_manifest_keeps_one_line_per_file_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "WRITE_EVERY", 1)
    path = tmp_path / "manifest.jsonl"
    odd = os.fsdecode(b'/data/name-\xff\n"x.jsonl')
    units = [DataUnit(odd, "/data", 10, 3), *(DataUnit(f"/data/{n}.jsonl", "/data", 10, 3) for n in range(9))]
    for turn in range(120):
        manifest = Manifest(path, ReadRequest())
        for unit in units:
            manifest.add(unit, UnitRead("jsonl", turn, digest="blake2b:1"), 0.0)
        manifest.write()
    assert len(path.read_text().splitlines()) <= 1000 + 3 * len(units)
    again = Manifest(path, ReadRequest())
    assert [again.result(unit) for unit in units] == [UnitRead("jsonl", 119, digest="blake2b:1")] * len(units)
    assert all(json.loads(line) for line in path.read_text().splitlines())
