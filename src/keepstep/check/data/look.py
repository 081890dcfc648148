# SPDX-License-Identifier: Apache-2.0
"""All of `keepstep check data`: find the files, read what changed, and collect what was seen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.check.data.alike import Alike
from keepstep.check.data.manifest import Manifest
from keepstep.check.data.pool import WAIT_S, Pool, find_units
from keepstep.check.data.progress import Progress
from keepstep.check.data.summary import Summary
from keepstep.check.data.units import Asked, Looked, Unit
from keepstep.check.place import Collected
from keepstep.core.wording import count
from keepstep.errors import UserError


@dataclass(frozen=True, kw_only=True)
class DataRequest:
    """What to read, and how."""

    paths: tuple[str, ...]
    asked: Asked = field(default_factory=Asked)
    manifest: Path | None = None
    again: bool = False
    """Read everything, also what the manifest says has not changed."""
    jobs: int | None = None
    wait_s: float = WAIT_S


@dataclass(frozen=True, kw_only=True)
class DataSeen:
    """What was collected; ``broken`` are the bad files with what was found, for copies and lists."""

    collected: Collected
    broken: list[tuple[Unit, Looked]]
    units: list[Unit]
    records: dict[str, int | None]
    """By path: how many records each file of data has."""
    interrupted: bool = False


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def look_at_data(request: DataRequest) -> DataSeen:
    """Read everything that was asked for. Ctrl-C ends it with what was seen until then."""
    units, left = find_units(list(request.paths), request.wait_s)
    missing = [path for kind, path, _ in left if kind == "missing"]
    if missing:
        raise UserError(f"no such file or folder: {missing[0]}", hint="give files, folders or URLs")
    manifest = Manifest(request.manifest, request.asked)
    summary, alike = Summary(request.asked), Alike()
    for kind, path, why in left:
        summary.left(kind, path, why)
    unchanged = done = 0
    records: dict[str, int | None] = {}
    interrupted = False
    progress = Progress(len(units), sum(unit.size for unit in units))

    def wanted() -> Iterator[Unit]:
        nonlocal unchanged, done
        for unit in units:
            known = None if request.again else manifest.result(unit)
            if known is None:
                yield unit
                continue
            unchanged, done = unchanged + 1, done + 1
            progress.done(unit.size)
            _count(records, unit, known)
            summary.add(unit, known)
            alike.add(unit, known)

    pool = Pool(request.jobs or cores(), request.asked, wait_s=request.wait_s)
    try:
        for unit, looked, read in pool.read(wanted()):
            if unit is None or looked is None:
                progress.read(read)
                continue
            done += 1
            progress.done(unit.size)
            _count(records, unit, looked)
            _take(unit, looked, manifest, summary, alike)
        for evidence in alike.evidence():
            summary.also(evidence)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.end()
        manifest.write()
    collected = summary.collected(unchanged)
    if interrupted:
        collected.partly(count(len(units) - done, "file"), "interrupted; the same command goes on where it stopped")
    return DataSeen(collected=collected, broken=summary.broken, units=units, records=records, interrupted=interrupted)


def _count(records: dict[str, int | None], unit: Unit, looked: Looked) -> None:
    if looked.data:
        records[unit.path] = looked.records


def _take(unit: Unit, looked: Looked, manifest: Manifest, summary: Summary, alike: Alike) -> None:
    summary.add(unit, looked)
    alike.add(unit, looked)
    before = manifest.known(unit)
    if before is not None and looked.digest and before.get("digest"):
        was, now = str(before["digest"]), looked.digest
        if was != now and was.partition(":")[0] == now.partition(":")[0]:
            same = (before.get("size"), before.get("mtime_ns")) == (unit.size, unit.mtime_ns)
            summary.changed(unit, looked, silently=same)
    manifest.add(unit, looked, time.time())
