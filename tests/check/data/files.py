# SPDX-License-Identifier: Apache-2.0
"""Damage done to files that a format's own library wrote, and what `keepstep check data` says about them."""

from __future__ import annotations

import os
from pathlib import Path

from keepstep.check.checkup import judge
from keepstep.check.data.look import DataRequest, look_at_data
from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead
from keepstep.model.report import Report


def looked(path: Path, kind: str = "", **asked: object) -> UnitRead:
    """What one file holds, read in this process."""
    info = path.stat()
    return read_unit(DataUnit(str(path), str(path.parent), info.st_size, info.st_mtime_ns, kind), ReadRequest(**asked))  # type: ignore[arg-type]


def kinds(found: UnitRead) -> list[str]:
    return [bad.kind for bad in found.bad.first]


def report_on(
    *paths: Path, asked: ReadRequest | None = None, manifest: Path | None = None, again: bool = False
) -> Report:
    """The whole check, with worker processes."""
    request = DataRequest(
        paths=tuple(map(str, paths)), asked=asked or ReadRequest(), manifest=manifest, again=again, jobs=2, wait_s=30
    )
    return judge(look_at_data(request).collected)


def rules_of(report: Report) -> list[str]:
    assert not report.crashed, report.crashed
    return [finding.rule for finding in report.findings]


def flip(path: Path, offset: int, bits: int = 0x10) -> None:
    """Change one byte in place, and keep the modification time: as a disk does it."""
    info = path.stat()
    data = bytearray(path.read_bytes())
    data[offset] ^= bits
    path.write_bytes(bytes(data))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def cut(path: Path, by: int) -> None:
    """Remove the last bytes."""
    data = path.read_bytes()
    path.write_bytes(data[:-by])
