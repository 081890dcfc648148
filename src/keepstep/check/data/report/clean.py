# SPDX-License-Identifier: Apache-2.0
"""Clean copies of bad files: the good records, byte for byte, in a folder of their own. Originals are only read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from keepstep.base.safe_files import make_private, open_private
from keepstep.base.wording import count
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.report.extract import Broken
from keepstep.check.data.units import DataUnit, UnitRead
from keepstep.errors import UserError
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import Damaged, TooMuch

BY_RANGES = {"tfrecord", "jsonl", "csv"}
"""Formats whose records stand side by side: leaving out the bytes of some leaves a good file."""


def clean(broken: Broken, folder: Path) -> Iterator[str]:
    """Write a copy of each bad file that can be cleaned. Says for each what was done."""
    make_private(folder)
    taken: set[str] = set()
    for unit, looked in broken:
        if looked.format not in BY_RANGES or not _is_known(looked):
            yield f"{unit.path}: no clean copy: {_why_not(looked)}"
            continue
        target = folder / _name(unit, looked, taken)
        try:
            with os.fdopen(open_private(target, os.O_WRONLY | os.O_EXCL), "wb") as out:
                kept = _copy(unit, looked, out.write)
        except OSError as error:
            raise UserError(f"cannot write {target}: {error.strerror or error}") from error
        yield f"wrote {target}: without {count(len(looked.bad), 'bad record')}, {kept:,} bytes"


def _is_known(looked: UnitRead) -> bool:
    """Whether it is known where each bad record begins and ends. A cut tail ends with the file."""
    return (
        not looked.unread
        and not looked.bad.more
        and all(
            bad.offset is not None and (bad.length is not None or bad.kind == "truncated") for bad in looked.bad.first
        )
    )


def _why_not(looked: UnitRead) -> str:
    if looked.format not in BY_RANGES:
        return "records of this format cannot be left out without writing the file anew"
    if looked.unread:
        return f"not all of it was read: {looked.unread}"
    if any(bad.kind == "empty" for bad in looked.bad.first):
        return "it has no records"
    return "where the bad records end is not known"


def _name(unit: DataUnit, looked: UnitRead, taken: set[str]) -> str:
    """Its own name, without the ending of a packing: the copy is not packed."""
    name = unit.path.rpartition("/")[2]
    if looked.packed and name.lower().endswith((".gz", ".zst", ".bz2", ".xz", ".zlib", ".zstd")):
        name = name.rpartition(".")[0]
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{number}-{name}"
    taken.add(chosen)
    return chosen


def _copy(unit: DataUnit, looked: UnitRead, write: Callable[[bytes], int]) -> int:
    """All bytes outside the bad records."""
    gaps = sorted((bad.offset or 0, _end(bad)) for bad in looked.bad.first)
    at = kept = 0
    with DataSource(unit) as source:
        try:
            for piece in source.content(looked.packed):
                for start, end in _kept(at, at + len(piece), gaps):
                    write(piece[start - at : end - at])
                    kept += end - start
                at += len(piece)
        except (Damaged, TooMuch):
            pass  # the packing ends here; its last record is one of the bad ones
    return kept


def _end(bad: Bad) -> int:
    return (bad.offset or 0) + bad.length if bad.length is not None else 1 << 62


def _kept(start: int, end: int, gaps: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a range that lie in no gap."""
    for low, high in gaps:
        if high <= start or low >= end:
            continue
        if low > start:
            yield start, low
        start = max(start, high)
        if start >= end:
            return
    yield start, end
