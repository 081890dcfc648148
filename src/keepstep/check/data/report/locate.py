# SPDX-License-Identifier: Apache-2.0
"""Where a sample is: the file, the record in it and its byte, from its number in all files in their order."""

from __future__ import annotations

from collections.abc import Iterable

from keepstep.check.data.find.recognise import recognise
from keepstep.check.data.readers.lines import lines_of
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import DataUnit
from keepstep.errors import UserError
from keepstep.parse.formats.data.npy_header import NotNpy, read_header
from keepstep.parse.formats.data.tfrecord import FOOTER, HEADER


def where(index: int, counted: Iterable[tuple[DataUnit, int | None]]) -> str:
    """One line: the place of a sample. ``counted``: the files in order, with their records.

    Raises ``UserError`` if the files do not say.
    """
    before = 0
    for unit, number in counted:
        if number is None:
            raise UserError(f"how many records {unit.path} has is not known, so sample {index:,} cannot be placed")
        if index < before + number:
            place = byte_of(unit, index - before)
            at = f", at byte {place:,}" if place is not None else ""
            return f"sample {index:,} is record {index - before:,} of {unit.path}{at}"
        before += number
    raise UserError(f"there is no sample {index:,}", hint=f"the files have {before:,} records")


def byte_of(unit: DataUnit, number: int) -> int | None:
    """Where a record begins; None where the format does not say it, or the file is packed."""
    try:
        with DataSource(unit) as source:
            found = recognise(source)
            if found.packed:
                return None
            if found.kind == "tfrecord":
                return _record(source, number)
            if found.kind == "jsonl":
                return _line(source, number)
            if found.kind == "npy":
                header = read_header(source.head(1 << 17))
                rows = header.shape[0] if header.shape else 1
                row = (header.size_bytes or 0) // max(1, rows)
                return None if header.fortran or not row else header.length + number * row
    except (OSError, NotNpy):
        return None
    return None


def _record(source: DataSource, number: int) -> int | None:
    """By the lengths of the records before it."""
    place = 0
    for _ in range(number):
        source.stream.seek(place)
        head = source.stream.read(HEADER)
        if len(head) < HEADER:
            return None
        place += int.from_bytes(head[:8], "little") + HEADER + FOOTER
    return place if place < source.size else None


def _line(source: DataSource, number: int) -> int | None:
    for line, begin, _ in lines_of(source.parts()):
        if line.strip():
            if number == 0:
                return begin
            number -= 1
    return None
