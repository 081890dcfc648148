# SPDX-License-Identifier: Apache-2.0
"""A rank's log on its way to the leader: redacted line by line, its beginning and its end if it is too long.

The leader's copy grows by appending, or is cut back to an earlier place and continued from there. Redaction keeps the
number of lines, so a line is the same one in both files, until a gap, which is one line of its own.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from keepstep.base.redact import redact
from keepstep.base.safe_files import open_regular

HEAD, TAIL = 256 << 10, 8 << 20
SLACK = 1.5
"""The end grows to this many times its size before it is sent anew, shorter."""
UNIT = 512 << 10
"""How much is redacted at a time."""
BEFORE, AFTER = 16 << 10, 4 << 10
"""Lines around a unit that show what a secret in it belongs to."""
LONGEST_LINE = 4 << 20
SETTLED_S = 1.0
"""An unfinished line that has not grown for this long is sent as it is."""


def gap(size: int) -> bytes:
    return b"[keepstep: %d bytes are missing here]\n" % size


class SentLog:
    """How much of one log the leader has."""

    def __init__(self, path: Path, *, tail: int = TAIL) -> None:
        self.path = path
        self.tail = tail
        self.forget()

    def forget(self) -> None:
        """The leader has nothing of it."""
        self._file: tuple[int, int] | None = None
        self._at = self.size = 0
        """What was sent: up to this place of the log, which made this many bytes of the copy."""
        self._head: int | None = None
        self._head_size = 0
        self._begins: int | None = None
        """Where in the log the end begins, if there is a gap before it."""
        self._part = -1
        """The log's size when its last, unfinished line was sent; that line will be sent again."""
        self._tried = (-1, -1)
        self._breaks: list[tuple[int, int]] = []
        """Places in the log after lines that redaction changed, each with the copy's place there."""

    @property
    def missing(self) -> int:
        """Bytes left out."""
        return self._begins - (self._head or 0) if self._begins is not None else 0

    def pieces(self, most: int, *, ended: bool) -> Iterator[tuple[int, bytes]]:
        """What the copy lacks, as places in the copy with bytes; ``most``: of the log, about. Raises ``OSError``.

        ``ended``: nothing writes to it any more.
        """
        with open_regular(self.path, follow=False) as stream:
            info = os.fstat(stream.fileno())
            size = info.st_size
            if self._file not in (None, (info.st_dev, info.st_ino)) or size < self._at:
                self.forget()
                yield 0, b""
            self._file = info.st_dev, info.st_ino
            settled = ended or time.time() - info.st_mtime > SETTLED_S
            if self._head is None:
                yield from self._send(stream, min(size, HEAD), ended=settled and size <= HEAD)
            if size <= HEAD:
                return
            if self._head is None:
                self._head, self._head_size = self._at, self.size
            begins = self._new_begin(stream, size, max(most, BEFORE), ended)
            if begins is not None:
                yield self._leave_out(begins)
            if size != self._part:
                yield from self._send(stream, size, ended=settled)

    def translated(self, place: int) -> int:
        """A place of the log as one of the copy."""
        if self._begins is not None and self._head is not None and self._head < place < self._begins:
            place = self._head
        number = bisect_right(self._breaks, (place, 1 << 62))
        before, there = self._breaks[number - 1] if number else (0, 0)
        found = there + place - before
        if number < len(self._breaks):  # inside the line that ends there
            found = min(found, self._breaks[number][1] - 1)
        return max(0, min(found, self.size))

    def _new_begin(self, stream: BinaryIO, size: int, most: int, ended: bool) -> int | None:
        """Where the end must begin from now on; None: what is still to be sent can simply follow."""
        assert self._head is not None
        since = self._begins if self._begins is not None else self._head
        wanted = max(self._head, size - min(self.tail, most))
        too_much = size - self._at > most or size - since > self.tail * SLACK
        could_be_longer = (
            ended
            and self._begins is not None
            and (self._begins - wanted) * 4 > size - self._begins
            and self._tried != (size, wanted)
        )
        if not too_much and not could_be_longer:
            return None
        self._tried = size, wanted
        begins = _next_line(stream, wanted, size) if wanted > self._head else self._head
        return begins if begins > self._at or could_be_longer else None

    def _leave_out(self, begins: int) -> tuple[int, bytes]:
        """Cut the copy back to its beginning, and go on from there with the line about the gap."""
        assert self._head is not None
        self._breaks = [each for each in self._breaks if each[0] <= self._head]
        line = gap(begins - self._head) if begins > self._head else b""
        self._at, self._part = begins, -1
        self._begins = begins if line else None
        self.size = self._head_size + len(line)
        self._breaks.append((begins, self.size))
        return self._head_size, line

    def _send(self, stream: BinaryIO, upto: int, *, ended: bool) -> Iterator[tuple[int, bytes]]:
        """All complete lines up to this place; where it has ``ended``, also the last."""
        while self._at < upto:
            stream.seek(self._at)
            unit = stream.read(min(UNIT, upto - self._at))
            whole = unit.rfind(b"\n") + 1
            if not whole and len(unit) == UNIT:
                unit += stream.read(min(LONGEST_LINE, upto - self._at) - UNIT)
                whole = unit.rfind(b"\n") + 1
            if not whole and len(unit) >= LONGEST_LINE:
                begins = _next_line(stream, self._at + len(unit), upto)
                yield self.size, gap(begins - self._at)
                self.size += len(gap(begins - self._at))
                self._at = begins
                self._breaks.append((self._at, self.size))
            elif whole:
                data = self._redacted(stream, unit[:whole])
                yield self.size, data
                self._advance(unit[:whole], data)
            else:
                if unit and ended:
                    self._part = upto
                    yield self.size, self._redacted(stream, unit)
                return

    def _redacted(self, stream: BinaryIO, unit: bytes) -> bytes:
        """Judged with the lines around it. The number of lines stays, so its own can be taken out again."""
        begin = max(0, self._at - BEFORE)
        stream.seek(begin)
        before = stream.read(self._at - begin)
        if begin:
            before = before[before.find(b"\n") + 1 :]
        stream.seek(self._at + len(unit))
        after = stream.read(AFTER) if unit.endswith(b"\n") else b""
        after = after[: after.rfind(b"\n") + 1]
        if not before.endswith(b"\n"):
            before = b""
        clean = redact(_text(before + unit + after)).split("\n")
        first, count = before.count(b"\n"), unit.count(b"\n")
        return "\n".join(clean[first : first + count] + ([""] if count else clean[first : first + 1])).encode(
            "utf-8", "surrogateescape"
        )

    def _advance(self, unit: bytes, data: bytes) -> None:
        if data != unit:
            at, size = self._at, self.size
            for old, new in zip(unit.split(b"\n"), data.split(b"\n"), strict=True):
                at, size = at + len(old) + 1, size + len(new) + 1
                if len(old) != len(new):
                    self._breaks.append((at, size))
        self._at += len(unit)
        self.size += len(data)
        self._part = -1


def _next_line(stream: BinaryIO, place: int, size: int) -> int:
    """The first place from there on at which a line begins; ``size`` if there is none."""
    stream.seek(place - 1)
    while place <= size and (piece := stream.read(UNIT)):
        found = piece.find(b"\n")
        if found >= 0:
            return min(place + found, size)
        place += len(piece)
    return size


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
