# SPDX-License-Identifier: Apache-2.0
"""All of `keepstep check data`: find the files, read what changed, and collect what was seen."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.base.wording import count
from keepstep.check.data.find.file_search import find_units
from keepstep.check.data.pool import ReaderPool
from keepstep.check.data.process import WAIT_S
from keepstep.check.data.report.duplicates import Alike
from keepstep.check.data.report.manifest import Manifest
from keepstep.check.data.report.progress import ReadProgress
from keepstep.check.data.report.summary import Summary
from keepstep.check.data.spool import Broken, Units
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from keepstep.check.place import Collected
from keepstep.errors import UserError

MOST_LABELS = 128 << 20
"""Bytes of packed labels that are kept."""
_NO_DATA, _UNKNOWN = -2, -1


@dataclass(frozen=True, kw_only=True)
class DataRequest:
    """What to read, and how."""

    paths: tuple[str, ...]
    asked: ReadRequest = field(default_factory=ReadRequest)
    manifest: Path | None = None
    again: bool = False
    """Read everything, also what the manifest says has not changed."""
    jobs: int | None = None
    wait_s: float = WAIT_S
    follow: bool = False
    """Whether links may lead out of the paths."""


@dataclass(frozen=True, kw_only=True)
class DataSeen:
    """What was collected; ``broken`` are the bad files with what was found, for copies and lists."""

    collected: Collected
    broken: Broken
    units: Units
    records: array[int]
    """By the number of a unit: its records, or a negative number."""
    labels: dict[int, str]
    """By the number of a unit: the label of each record, where it was asked for and found."""
    longest: dict[tuple[str, str], int]
    """By field and unit, ``characters`` or ``values``: the most that a record has."""
    interrupted: bool = False

    def counted(self) -> Iterator[tuple[DataUnit, int | None]]:
        """The files that are data, in their order, with how many records each has, where that is known."""
        return _counted(self.units, self.records)


def _counted(units: Units, records: array[int]) -> Iterator[tuple[DataUnit, int | None]]:
    for unit in units:
        number = records[unit.number]
        if number != _NO_DATA:
            yield unit, None if number == _UNKNOWN else number


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def look_at_data(request: DataRequest) -> DataSeen:
    """Read everything that was asked for. Ctrl-C ends it with what was seen until then."""
    progress = ReadProgress()
    try:
        units, left = find_units(list(request.paths), request.wait_s, progress.found, follow=request.follow)
    finally:
        progress.end()
    missing = [path for kind, path, _ in left if kind == "missing"]
    if missing:
        raise UserError(f"no such file or folder: {missing[0]}", hint="give files, folders or URLs")
    progress.begin(len(units), units.size_bytes)
    looking = _Looking(request, units, progress)
    for kind, path, why in left:
        looking.summary.left(kind, path, why)
    return looking.look()


class _Looking:
    """One check, while it goes on."""

    def __init__(self, request: DataRequest, units: Units, progress: ReadProgress) -> None:
        self._request, self._units, self._progress = request, units, progress
        self._manifest = Manifest(request.manifest, request.asked)
        self._alike = Alike(len(units))
        self._records = array("q", [_NO_DATA]) * len(units)
        self._labels: dict[int, str] = {}
        self._unchanged = self._done = self._labels_size = 0
        self.summary = Summary(request.asked)

    def look(self) -> DataSeen:
        interrupted = False
        try:
            for unit, looked in self._read(self._wanted()):
                self._take(unit, looked)
            for evidence in self._alike.evidence(_counted(self._units, self._records), self._read):
                self.summary.also(evidence)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._progress.end()
            self._manifest.write()
        collected = self.summary.collected(self._unchanged)
        if self._alike.left_out:
            copies = count(self._alike.left_out, "file that may be a copy", "files that may be copies")
            collected.partly(copies, "too many to compare")
        if interrupted:
            left = count(len(self._units) - self._done, "file")
            collected.partly(left, "interrupted; the same command goes on where it stopped")
        return DataSeen(
            collected=collected,
            broken=self.summary.broken,
            units=self._units,
            records=self._records,
            labels=self._labels,
            longest=self.summary.longest,
            interrupted=interrupted,
        )

    def _wanted(self) -> Iterator[DataUnit]:
        """What has to be read. What the manifest knows is taken from there, on the way."""
        for unit in self._units:
            known = None if self._request.again else self._manifest.result(unit)
            if known is None:
                yield unit
                continue
            self._unchanged += 1
            self._count(unit, known, unchanged=True)

    def _read(self, units: Iterable[DataUnit]) -> Iterator[tuple[DataUnit, UnitRead]]:
        """In worker processes."""
        pool = ReaderPool(self._request.jobs or cores(), self._request.asked, wait_s=self._request.wait_s)
        for unit, looked, read in pool.read(units):
            if unit is None or looked is None:
                self._progress.read(read)
            else:
                yield unit, looked

    def _count(self, unit: DataUnit, looked: UnitRead, *, unchanged: bool = False) -> None:
        self._done += 1
        self._progress.done(unit.size, unchanged=unchanged)
        if looked.data:
            records = looked.records
            self._records[unit.number] = records if records is not None and 0 <= records < 1 << 62 else _UNKNOWN
        if looked.labels and self._labels_size < MOST_LABELS:
            self._labels[unit.number] = looked.labels
            self._labels_size += len(looked.labels)
        self.summary.add(unit, looked)
        self._alike.add(unit, looked)

    def _take(self, unit: DataUnit, looked: UnitRead) -> None:
        """A fresh result."""
        self._count(unit, looked)
        before = self._manifest.known(unit)
        if before is not None and looked.digest and before.get("digest"):
            was, now = str(before["digest"]), looked.digest
            if was != now and was.partition(":")[0] == now.partition(":")[0]:
                same = (before.get("size"), before.get("mtime_ns")) == (unit.size, unit.mtime_ns)
                self.summary.changed(unit, looked, silently=same)
        self._manifest.add(unit, looked, time.time())
