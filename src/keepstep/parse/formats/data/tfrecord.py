# SPDX-License-Identifier: Apache-2.0
"""TFRecord: each record is its length (8 bytes), that length's CRC32C, the data, and the data's CRC32C.

The walk goes through a buffer without touching the data: a header of 12 bytes that was right once is right again, and
most files have few lengths. All CRCs of a buffer are then computed in one go, so a small record costs less than a
microsecond of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.wording import count
from keepstep.parse.formats.data.bad import Bad, BadList

Crc = Callable[..., int]
"""CRC32C of some bytes, and with a second argument of what follows them."""

HEADER = 12
FOOTER = 4
LONG = 256 << 10
"""A record of this size or more is not kept in memory as a whole, if nobody wants its data."""
LONGEST_WANTED = 64 << 20
MOST_LENGTHS = 50_000
COPY = 4096
_MASK = 0xA282EAD8
_ZEROS = bytes(4)
_NOT_ZERO = lazy_pattern(rb"[^\0]")


def masked(crc: int) -> int:
    """The CRC as the format stores it."""
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def is_header(head: bytes, crc: Crc) -> bool:
    """Whether these are the first 12 bytes of a record."""
    return len(head) >= HEADER and masked(crc(head[:8])) == int.from_bytes(head[8:HEADER], "little")


class Walk:
    """The records of one file, from pieces of any size. Memory is that of a piece and of a record below ``LONG``."""

    def __init__(self, crc: Crc, numpy: Any = None, record: Callable[[int, bytes], None] | None = None) -> None:
        """``record`` is called with the number and data of each good record below ``LONGEST_WANTED``, in order."""
        self.records = 0
        self.bad = BadList()
        self._mean_length = 0
        self._crc, self._numpy, self._each = crc, numpy, record
        self._longest = LONG if record is None else LONGEST_WANTED
        self._known: dict[bytes, int] = {}
        self._rest = b""
        self._at = 0  # where the rest begins in the file
        self._long: tuple[int, int, int] | None = None  # start, bytes of data still to come, CRC so far
        self._lost: int | None = None  # where the wrong header is that no record was found after so far
        self._zeros = False  # whether only zeros were seen since

    def feed(self, piece: bytes) -> None:
        """The next bytes of the file."""
        buffer = self._rest + piece if self._rest else piece
        position = 0
        while True:
            if self._lost is not None:
                position = self._search(buffer, position)
                if self._lost is not None:
                    break
            if self._long is not None:
                position = self._go_on(buffer, position)
                if self._long is not None:
                    break
            position, goes_on = self._walk(buffer, position)
            if not goes_on:
                break
        self._rest = buffer[position:]
        self._at += position

    def skip_zeros(self, length: int) -> bool:
        """So many zeros follow, of which few are looked at. False: they are in a record, which cannot be checked."""
        some = min(length, 2 * HEADER)
        self.feed(bytes(some))
        if self._lost is None:
            return False
        self._at += length - some
        return True

    def no_more_records(self) -> None:
        """Nobody wants the data of further records."""
        self._each, self._longest = None, LONG

    def end(self) -> None:
        """The file ends here."""
        if self._lost is not None:
            rest = self._at + len(self._rest) - self._lost
            if self._zeros:
                self._cut(self._lost, f"only zeros follow, {rest:,} bytes of them")
            else:
                self._note(
                    self._lost, f"its length is wrong (CRC), and no record follows in the last {rest:,} bytes", rest
                )
        elif self._long is not None:
            start, missing, _ = self._long
            self._cut(start, f"{count(missing + FOOTER - len(self._rest), 'byte')} of it are missing")
        elif len(self._rest) >= HEADER:
            wanted = int.from_bytes(self._rest[:8], "little") + HEADER + FOOTER
            self._cut(self._at, f"{len(self._rest):,} of its {wanted:,} bytes are there")
        elif self._rest:
            self._cut(self._at, f"only {count(len(self._rest), 'byte')} of its header are there")

    def _cut(self, start: int, why: str) -> None:
        self.bad.add(Bad("truncated", f"the file ends inside this record: {why}", self.records, start))

    def _note(self, start: int, how: str, length: int | None = None) -> None:
        self.bad.add(Bad("corrupt", how, self.records, start, length))

    def _walk(self, buffer: bytes, position: int) -> tuple[int, bool]:
        """Go on to the end of what is here, or to a record that needs care. Whether there is more to do here."""
        known, end, begin = self._known, len(buffer), position
        ends: list[int] = []
        data: list[bytes | memoryview] = []
        # a small slice of bytes is cheaper than one of a view, a large one is not
        whole = memoryview(buffer) if self._mean_length > COPY else buffer
        add_end, add_data = ends.append, data.append
        try:
            while True:
                length = known[buffer[position : position + HEADER]]
                stop = position + length
                if stop > end:
                    break
                add_data(whole[position + HEADER : stop - FOOTER])
                add_end(stop)
                position = stop
        except KeyError:
            length = 0
        if ends:
            self._verify(buffer, begin, data, ends)
        if length:
            return self._begin_long(buffer, position, length) if length >= self._longest else (position, False)
        head = buffer[position : position + HEADER]
        if len(head) < HEADER:
            return position, False
        if not is_header(head, self._crc):
            self._lost, self._zeros = self._at + position, True
            return position, True
        if len(known) >= MOST_LENGTHS:
            known.clear()
        known[head] = int.from_bytes(head[:8], "little") + HEADER + FOOTER
        return position, True

    def _verify(self, buffer: bytes, begin: int, data: list[bytes | memoryview], ends: list[int]) -> None:
        """Compare the CRCs of records that follow each other from ``begin`` on."""
        self._mean_length = (ends[-1] - begin) // len(ends)
        wrong = self._wrong(buffer, list(map(self._crc, data)), ends)
        if self._each is not None:
            bad = set(wrong)
            for number, each in enumerate(data):
                if number not in bad and self._each is not None:
                    self._each(self.records + number, bytes(each))
        before = self.records
        for number in wrong:
            start = ends[number - 1] if number else begin
            self.records = before + number
            self._note(self._at + start, "its data is wrong (CRC)", ends[number] - start)
        self.records = before + len(ends)

    def _wrong(self, buffer: bytes, crcs: list[int], ends: list[int]) -> list[int]:
        """Which of the records do not have the CRC that they state."""
        if self._numpy is None:
            return [
                n
                for n, (crc, end) in enumerate(zip(crcs, ends, strict=True))
                if masked(crc) != int.from_bytes(buffer[end - FOOTER : end], "little")
            ]
        numpy = self._numpy
        found = numpy.array(crcs, dtype=numpy.uint32)
        found = ((found >> numpy.uint32(15)) | (found << numpy.uint32(17))) + numpy.uint32(_MASK)
        places = numpy.array(ends, dtype=numpy.int64)[:, None] + numpy.arange(-FOOTER, 0)
        stated = numpy.frombuffer(buffer, dtype=numpy.uint8)[places].view("<u4").ravel()
        return [int(each) for each in numpy.nonzero(found != stated)[0]]

    def _begin_long(self, buffer: bytes, position: int, length: int) -> tuple[int, bool]:
        self._long = (self._at + position, length - HEADER - FOOTER, 0)
        return position + HEADER, True

    def _go_on(self, buffer: bytes, position: int) -> int:
        """More of a long record."""
        assert self._long is not None
        start, missing, crc = self._long
        view = memoryview(buffer)[position : position + missing]
        if missing:
            crc = self._crc(view, crc)
            missing -= len(view)
            position += len(view)
            self._long = (start, missing, crc)
        if missing or len(buffer) - position < FOOTER:
            return position
        stated = int.from_bytes(buffer[position : position + FOOTER], "little")
        position += FOOTER
        length = self._at + position - start
        if stated != masked(crc):
            self._note(start, "its data is wrong (CRC)", length)
        self._long = None
        self.records += 1
        return position

    def _search(self, buffer: bytes, position: int) -> int:
        """Look for the next record after a wrong header. Its length is below 4 GB, so four bytes of it are zero."""
        assert self._lost is not None
        self._zeros = self._zeros and buffer.count(0, position) == len(buffer) - position
        if self._at + position == self._lost:
            position += 1
        found = buffer.find(_ZEROS, position + 4)
        while found >= 0:
            start = found - 4
            if len(buffer) - start < HEADER:
                return start
            if is_header(buffer[start : start + HEADER], self._crc):
                resumed = self._at + start
                how = f"its length is wrong (CRC); the next record found begins at byte {resumed:,}"
                self._note(self._lost, how, resumed - self._lost)
                self.records += 1
                self._lost = None
                return start
            after = _NOT_ZERO.search(buffer, found)
            found = buffer.find(_ZEROS, max(found + 1, after.start() - HEADER if after else len(buffer) - HEADER))
        return max(position, len(buffer) - HEADER + 1)
