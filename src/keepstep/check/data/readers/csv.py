# SPDX-License-Identifier: Apache-2.0
"""CSV: every row has as many columns as the first one, quotes are closed, and the text is text."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from keepstep.base.wording import count
from keepstep.check.data.readers.lines import TOO_LONG, lines_of
from keepstep.check.data.readers.source import DataSource
from keepstep.check.data.units import Field, ReadRequest, UnitRead
from keepstep.parse.formats.data.bad import Bad
from keepstep.sources.files.unpack import Damaged, TooMuch

MOST_ROW_LINES = 10_000
"""A quoted cell may hold line ends, but not so many: then a quote is not closed."""


def read(source: DataSource, asked: ReadRequest, packed: str = "") -> UnitRead:
    """All rows."""
    looked = UnitRead("csv", packed=packed, protected=packed in ("gz", "zst", "xz", "bz2"))
    rows = _Rows(looked)
    try:
        rows.read(lines_of(source.content_parts(packed)), _delimiter(source, packed))
    except Damaged as error:
        kind = "truncated" if "missing" in str(error) else "corrupt"
        looked.broken(Bad(kind, f"unpacking failed: {error}", rows.number, rows.begin))
    except TooMuch as error:
        looked.unread = str(error)
    looked.records = max(0, rows.number - rows.has_header)
    looked.fields = [Field(name, "column") for name in rows.names]
    if not looked.records and not len(looked.bad) and not looked.unread:
        looked.broken(Bad("empty", "it has no rows"))
    return looked


def _delimiter(source: DataSource, packed: str) -> str:
    name = source.name.lower()
    if ".tsv" in name:
        return "\t"
    first = (source.head(4096) if not packed else b"").partition(b"\n")[0]
    return max(",\t;|", key=lambda mark: first.count(mark.encode()))


class _Rows:
    """One pass through the rows. ``begin`` is where the current row begins."""

    def __init__(self, looked: UnitRead) -> None:
        self._looked = looked
        self.number = self.begin = 0
        self.has_header = False
        self.names: list[str] = []
        self._columns: int | None = None
        self._line = self._lines = self._length = 0
        self._ended = True

    def read(self, lines: Iterator[tuple[bytes, int, bool]], delimiter: str) -> None:
        csv.field_size_limit(1 << 30)
        rows = csv.reader(self._texts(lines), delimiter=delimiter, strict=False)
        while True:
            self._lines = 0
            try:
                row = next(rows, None)
            except csv.Error as error:
                self._bad("corrupt", f"the row cannot be read: {str(error)[:80]}")
                self.number += 1
                continue
            if row is None:
                return
            if row:
                self._row(row)

    def _texts(self, lines: Iterator[tuple[bytes, int, bool]]) -> Iterator[str]:
        for line, begin, self._ended in lines:
            if self._lines == 0:
                self.begin, self._length = begin, 0
            self._line += 1
            self._lines += 1
            self._length = begin + len(line) - self.begin
            if line is TOO_LONG or self._lines > MOST_ROW_LINES:
                self._bad("corrupt", "the row does not end: a quote is not closed")
                return
            if b"\0" in line:
                self._bad("corrupt", "the line holds zero bytes")
                line = line.replace(b"\0", b"")
            try:
                yield line.decode("utf-8-sig" if begin == 0 else "utf-8")
            except UnicodeDecodeError as error:
                self._bad("corrupt", f"the line is not UTF-8 (at its byte {error.start:,})")
                yield line.decode("utf-8", "replace")

    def _row(self, row: list[str]) -> None:
        if self._columns is None:
            self._columns = len(row)
            self.has_header = not any(_is_number(cell) for cell in row)
            self.names = row[:1000] if self.has_header else [f"column {n}" for n in range(min(len(row), 1000))]
        elif len(row) != self._columns:
            cut = not self._ended and len(row) < self._columns
            how = f"the row has {count(len(row), 'column')} instead of {self._columns:,}"
            self._bad("truncated" if cut else "corrupt", how)
        self.number += 1

    def _bad(self, kind: str, how: str) -> None:
        record = self.number - self.has_header if self.number else self.number
        line = self._line - max(0, self._lines - 1)
        self._looked.broken(Bad(kind, how, record, self.begin, self._length, line))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
