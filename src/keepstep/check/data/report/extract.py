# SPDX-License-Identifier: Apache-2.0
"""Bad records, taken out for a look, and the list of them that loaders can skip by. Originals are only read."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import make_private, open_private, write_whole
from keepstep.base.wording import count
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import DataUnit, UnitRead
from keepstep.errors import UserError
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import TooMuch

SCHEMA = "keepstep.quarantine/1"
MOST_EXTRACTED = 1_000
LARGEST = 1 << 30
PIECE = 4 << 20

Broken = Iterable[tuple[DataUnit, UnitRead]]


def quarantine(broken: Broken, target: Path) -> str:
    """Write the list: each bad file, and which of its records to skip. Without records, the whole file is meant."""
    files = [_entry(unit, looked) for unit, looked in broken]
    text = json.dumps({"schema": SCHEMA, "files": files}, indent=1)
    try:
        write_whole(target, text.encode("utf-8", "surrogateescape") + b"\n")
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}") from error
    return f"wrote {target}: {count(len(files), 'bad file')}"


def _entry(unit: DataUnit, looked: UnitRead) -> dict[str, Any]:
    whole = any(bad.record is None for bad in looked.bad.first) or looked.bad.more > 0
    truncated = [bad for bad in looked.bad.first if bad.kind == "truncated" and bad.record is not None]
    return {
        "file": unit.path,
        "format": looked.format,
        "whole_file": whole,
        "records": [] if whole else sorted({bad.record for bad in looked.bad.first if bad.record is not None}),
        "ends_at_record": truncated[0].record if truncated else None,
        "bad": [
            {"record": bad.record, "offset": bad.offset, "length": bad.length, "line": bad.line, "how": bad.how}
            for bad in looked.bad.first
        ],
        "more": looked.bad.more,
    }


def extract(broken: Broken, folder: Path) -> str:
    """Write the bytes of each bad record whose place is known. Returns what to say about it."""
    make_private(folder)
    written = left = 0
    for number, (unit, looked) in enumerate(broken):
        for bad in looked.bad.first:
            if bad.offset is None or written >= MOST_EXTRACTED:
                left += 1
                continue
            which = "x" if bad.record is None else bad.record
            name = f"{number:05d}-{_safe(unit.path)}-record-{which}-byte-{bad.offset}"
            try:
                _copy(unit, looked, bad, folder / name)
                written += 1
            except OSError as error:
                raise UserError(f"cannot write into {folder}: {error.strerror or error}") from error
    rest = f"; {left:,} have no known place or were too many" if left else ""
    return f"wrote {count(written, 'bad record')} into {folder}{rest}"


def _safe(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)[:80]


def _copy(unit: DataUnit, looked: UnitRead, bad: Bad, target: Path) -> None:
    """From where the record begins, as many bytes as belong to it, or to the end."""
    assert bad.offset is not None
    most = min(bad.length if bad.length is not None else LARGEST, LARGEST)
    with DataSource(unit) as source, os.fdopen(open_private(target, os.O_WRONLY | os.O_EXCL), "wb") as out:
        done = at = 0
        with contextlib.suppress(TooMuch):
            for piece in _pieces(source, looked, bad.offset):
                start = max(0, bad.offset - at) if looked.packed else 0
                at += len(piece)
                taken = piece[start : start + most - done]
                out.write(taken)
                done += len(taken)
                if done >= most:
                    break


def _pieces(source: DataSource, looked: UnitRead, offset: int) -> Iterator[bytes]:
    if looked.packed:
        yield from source.content(looked.packed)
        return
    end = next((begin for begin, after in source.holes if after > offset), source.size)
    at = source.stream.seek(offset)
    while at < end and (data := source.stream.read(min(PIECE, end - at))):  # up to a hole that is skipped
        at += len(data)
        yield data
