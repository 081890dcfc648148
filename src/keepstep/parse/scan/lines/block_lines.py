# SPDX-License-Identifier: Apache-2.0
"""Where lines begin and end in a buffer, and the lines of one writer after a place. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.parse.scan.lines.writer import Writer

LONGEST_LINE = 64 << 10
HALF_A_LINE = LONGEST_LINE // 2
MOST_BYTES_OF_A_BLOCK = 256 << 10
MOST_LINES_OF_A_BLOCK = 1500
"""Lines of all writers: many ranks may fail at once, line by line."""
LONGEST_PREFIX = 200
"""Of what a log viewer puts before each line."""
_TIMED = lazy_pattern(r"\d\d:\d\d:\d\d")

ReadLine = Callable[[bytes, int, int], tuple[Writer, str]]
"""The writer and the text of the line between two places of a buffer."""
IsOfAnother = Callable[[bytes, int, int, str], bool]
"""Whether that line is certainly not by this writer, given by key."""


class BlockLines:
    """The lines of one writer after a place, skipping what others wrote between them.

    ``before``: what stood before the block in its first line. Where the lines below carry the same (a log viewer's
    column, a quotation mark), or the same but for numbers, it is taken off them.
    """

    def __init__(
        self, read: ReadLine, is_of_another: IsOfAnother, buffer: bytes, position: int, writer: Writer, before: str = ""
    ) -> None:
        self._before = before if before.strip() and len(before) <= LONGEST_PREFIX else ""
        self._alike = _alike(self._before) if self._before else None
        self._is_name = bool(self._before) and buffer.find(before.encode(), position, position + HALF_A_LINE) >= 0
        """It stands there again as it is: then what differs in its numbers is of another writer."""
        self._read = read
        self._is_of_another = is_of_another
        self._buffer = buffer
        self._writer = writer
        self._position = position
        self.consumed = position
        """Up to where the reader got; the line that told it to stop is not part of the block."""

    def __iter__(self) -> Iterator[str]:
        buffer, key = self._buffer, self._writer.key
        adjacent = True
        read = 0
        passed = 0
        position = self._position
        position += buffer[position : position + 2] == b"\r\n"
        while position + 1 < len(buffer) and read < MOST_BYTES_OF_A_BLOCK and passed < MOST_LINES_OF_A_BLOCK:
            if buffer[position] in b"\r\n":
                start, stop = position + 1, end_of_line(buffer, position + 1)
            else:
                start, stop = bounds(buffer, position + 1, ends=False)
            read += stop - start + 1
            passed += 1
            position = stop + 1 if buffer[stop : stop + 2] == b"\r\n" else stop
            if self._is_of_another(buffer, start, stop, key):
                adjacent = False
                continue
            writer, text = self._read(buffer, start, stop)
            if writer.key == key:
                adjacent = True
            elif writer.key or not adjacent:
                adjacent = False
                continue
            bare = self._bare(text) if self._before else text
            if bare is None:
                continue
            self.consumed = start
            yield bare
        self.consumed = position

    def _bare(self, text: str) -> str | None:
        """The line without what its first line had before it; None for a line that another one wrote so."""
        if text.startswith(self._before) or text.rstrip() == self._before.rstrip():
            return text[len(self._before) :]
        like = self._alike.match(text) if self._alike is not None else None
        if like is None:
            return text
        return None if self._is_name and not _TIMED.search(self._before) else text[like.end() :]


def _alike(before: str) -> re.Pattern[str]:
    """The same words with any numbers in them."""
    return re.compile(
        re.sub(r"\d+", r"\\d+", re.escape(before.rstrip())) + f" {{0,{len(before) - len(before.rstrip())}}}"
    )


def bounds(buffer: bytes, place: int, ends: bool = True) -> tuple[int, int]:
    """The line around a place, as (start, stop); ``ends``: the place is the end of a hit."""
    inside = place - 1 if ends else place
    above = buffer.rfind(b"\n", 0, inside) + 1
    start = max(above, buffer.rfind(b"\r", max(above, inside - LONGEST_LINE), inside) + 1)
    return max(start, inside - HALF_A_LINE), end_of_line(buffer, inside)


def line_begin(buffer: bytes, end: int) -> int:
    """Where the whole line around the end of a hit begins, however long it is."""
    return max(buffer.rfind(b"\n", 0, end - 1), buffer.rfind(b"\r", max(0, end - LONGEST_LINE), end - 1)) + 1


def line_end(buffer: bytes, end: int) -> int:
    """Where it ends, however long it is."""
    found = [place for mark in (b"\n", b"\r") if (place := buffer.find(mark, end - 1)) >= 0]
    return min(found, default=len(buffer))


def end_of_line(buffer: bytes, inside: int) -> int:
    stop = buffer.find(b"\n", inside)
    stop = len(buffer) if stop < 0 else stop
    turn = buffer.find(b"\r", inside, stop)
    return min(stop if turn < 0 else turn, inside + HALF_A_LINE)
