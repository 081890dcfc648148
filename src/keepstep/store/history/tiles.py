# SPDX-License-Identifier: Apache-2.0
"""One tile of a history: what was measured of several subjects in one span of time. Its bytes, and back. Pure.

    head: magic, length of the whole, checksum of what follows, start and span in seconds, kind, columns, subjects
    one entry for each column: reading, which value of it, type, whether packed, length
    the columns: first the subjects, then one number for each of them

A tile that is cut off or damaged is skipped; the next one is found by its magic.
"""

from __future__ import annotations

import math
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from keepstep.model.identity import MOST_RANKS

MAGIC = b"KSTILE1\n"
HEAD = struct.Struct("<8sIIddBBHI")
"""Magic, length, checksum, start, span, kind, spare, columns, subjects."""
ENTRY = struct.Struct("<BBcBI")
RANKS, HOSTS, GPUS = 1, 2, 3
LAST, LOW, MEAN, HIGH = 0, 1, 2, 3
"""Which value of a reading a column has. ``LAST``: of one without a spread."""
UNKNOWN = 255
"""In a byte. So a share of 1 is 254 parts."""
PARTS = UNKNOWN - 1
LONGEST = 64 << 20
WORTH_PACKING = 64
SMALL, WINDOW, PIECE = 16 << 10, 64 << 10, 1 << 20
"""A tile of up to so many bytes is read at once, a file by so many, and a damaged one is searched by so many."""
_CHECKED = 16
"""Where the checksum's bytes begin."""
_SIZES = {"B": 1, "b": 1, "f": 4, "d": 8, "I": 4}
"""By type: ``B`` a share, ``b`` a small whole number."""
Numbers = Sequence[float]
Key = tuple[int, int]
"""The number of a reading, and which value of it."""
SUBJECTS: Key = (0, 0)


@dataclass(frozen=True)
class Tile:
    """``columns``: for each reading and value, one number per subject; NaN where it was not measured."""

    start: float
    span: float
    kind: int
    subjects: list[int] | list[str]
    columns: dict[Key, Numbers] = field(default_factory=dict)


def packed(tile: Tile, types: Mapping[int, str]) -> bytes:
    """``types``: how each reading is kept, by number."""
    if tile.kind == RANKS:
        subjects, kind = array("I", tile.subjects).tobytes(), "I"
    else:
        subjects, kind = "\n".join(str(each).replace("\n", " ") for each in tile.subjects).encode(), "B"
    entries, bodies = [], []
    for (number, which), of, data in (
        (SUBJECTS, kind, subjects),
        *((key, types[key[0]], _bytes(values, types[key[0]])) for key, values in tile.columns.items()),
    ):
        small = zlib.compress(data, 6) if len(data) > WORTH_PACKING else data
        is_packed = len(small) < len(data)
        body = small if is_packed else data
        entries.append(ENTRY.pack(number, which, of.encode(), is_packed, len(body)))
        bodies.append(body)
    rest = b"".join((*entries, *bodies))
    head = [MAGIC, HEAD.size + len(rest), 0, tile.start, tile.span, tile.kind, 0, len(entries), len(tile.subjects)]
    head[2] = zlib.crc32(rest, zlib.crc32(HEAD.pack(*head)[_CHECKED:]))
    return HEAD.pack(*head) + rest


def _bytes(values: Numbers, kind: str) -> bytes:
    if kind in "Bb":
        parts = PARTS if kind == "B" else 1
        return bytes(UNKNOWN if each != each else int(min(max(each * parts, 0.0), PARTS) + 0.5) for each in values)
    return array(kind, values).tobytes()


@dataclass(slots=True)
class PackedTile:
    """A tile whose columns are found and unpacked when they are asked for: there may be hundreds of thousands."""

    start: float
    span: float
    kind: int
    size: int
    read: Callable[[int, int], bytes]
    """The bytes of its file from here to there."""
    keys: frozenset[Key]
    """Which columns it has. The same object for the same ones."""
    begin: int
    end: int
    """In its file."""
    is_sound: bool | None = None
    """Whether its checksum is right; None: not looked at yet."""

    @property
    def ranks(self) -> array[int]:
        found, data = array("I"), self.raw(SUBJECTS)
        found.frombytes(data[: len(data) // 4 * 4])
        return found

    @property
    def names(self) -> list[str]:
        return self.raw(SUBJECTS).decode("utf-8", "replace").split("\n")[: self.size]

    def raw(self, key: Key) -> bytes:
        """The bytes of a column, one share for each subject where it is kept in bytes; empty if there is none."""
        return self._column(key)[1]

    def _column(self, key: Key) -> tuple[str, bytes]:
        """Its type and bytes."""
        if key not in self.keys:
            return "B", b""
        if self.is_sound is None:
            self.is_sound = _is_sound(self.read(self.begin, self.end))
        if not self.is_sound:
            return "B", b""
        data = self.read(self.begin, min(self.begin + SMALL, self.end))
        layout = _layout_of(data, self.begin, self.end, self.read)
        if layout is None or key not in layout:  # it is gone, or another file has its name
            return "B", b""
        kind, is_packed, begin, end = layout[key]
        body = data[begin:end] if end <= len(data) else self.read(self.begin + begin, self.begin + end)
        if not is_packed:
            return kind, body
        most = self.size * _SIZES[kind] if key != SUBJECTS or self.kind == RANKS else 1 << 20
        unpacker = zlib.decompressobj()
        try:
            return kind, unpacker.decompress(body, most + 1)
        except zlib.error:
            return kind, b""

    def column(self, key: Key) -> Sequence[float]:
        """One number for each subject; empty if there is none, or not one for each."""
        kind, data = self._column(key)
        if len(data) != self.size * _SIZES[kind]:
            return ()
        if kind in "Bb":
            values = _SHARES if kind == "B" else _WHOLE
            return [values[each] for each in data]
        found: array[float] = array(kind)
        found.frombytes(data)
        return found


_SHARES = [each / PARTS for each in range(UNKNOWN)] + [math.nan]
_WHOLE = [float(each) for each in range(UNKNOWN)] + [math.nan]


def tiles_in(read: Callable[[int, int], bytes], begin: int, end: int) -> Iterator[tuple[PackedTile, bytes]]:
    """The tiles of a file between two places in their order, and how each one's subjects stand there.

    ``read``: as of :class:`PackedTile`, for later too. Of a large tile only the head is read: where the next one
    begins must be right, and its checksum is looked at when it is used.
    """
    window, window_at, at = b"", 0, begin

    def ahead(start: int, stop: int) -> bytes:
        nonlocal window, window_at
        if not window_at <= start <= stop <= window_at + len(window):
            window, window_at = read(start, max(stop, min(start + WINDOW, end))), start
        return window[start - window_at : stop - window_at]

    while 0 <= at <= end - HEAD.size:
        found = _tile(read, ahead, at, end)
        if found is not None:
            yield found
        at = found[0].end if found is not None else _next(read, at + 1, end)


def _next(read: Callable[[int, int], bytes], at: int, end: int) -> int:
    """Where the next tile may begin."""
    while at < end and (piece := read(at, min(at + PIECE, end))):
        found = piece.find(MAGIC)
        if found >= 0:
            return at + found
        at += max(1, len(piece) - len(MAGIC) + 1)
    return end


def _tile(
    read: Callable[[int, int], bytes], ahead: Callable[[int, int], bytes], at: int, end: int
) -> tuple[PackedTile, bytes] | None:
    head = ahead(at, at + HEAD.size)
    if len(head) < HEAD.size:
        return None
    magic, length, _, start, span, kind, _, _, subjects = HEAD.unpack(head)
    if magic != MAGIC or not HEAD.size <= length <= LONGEST or at + length > end or subjects > MOST_RANKS:
        return None
    if not (math.isfinite(start) and math.isfinite(span) and span >= 0):
        return None
    is_small = length <= SMALL
    data = ahead(at, at + min(length, SMALL))
    if is_small and not _is_sound(data):
        return None
    if not is_small and at + length <= end - len(MAGIC) and read(at + length, at + length + len(MAGIC)) != MAGIC:
        return None
    layout = _layout_of(data, at, at + length, read)
    if layout is None:
        return None
    _, _, first, last = layout[SUBJECTS]
    named = data[first:last] if last <= len(data) else read(at + first, at + last)
    keys = _same(frozenset(layout))
    return PackedTile(start, span, kind, subjects, read, keys, at, at + length, True if is_small else None), named


_Layout = dict[Key, tuple[str, bool, int, int]]
"""Of each column its type, whether it is packed, and where it begins and ends in its tile."""


def _layout_of(data: bytes, begin: int, end: int, read: Callable[[int, int], bytes]) -> _Layout | None:
    """``data``: the beginning of the tile that lies between these places of its file."""
    if len(data) < HEAD.size:
        return None
    body = HEAD.size + HEAD.unpack_from(data)[7] * ENTRY.size
    if body > end - begin:
        return None
    if body > len(data):
        data = read(begin, begin + body)
    return _layout(data[HEAD.size : body], end - begin)


@lru_cache(1024)
def _layout(entries: bytes, length: int) -> _Layout | None:
    """None of a damaged tile. The small tiles of one host have few different ones."""
    layout: _Layout = {}
    if len(entries) % ENTRY.size:
        return None
    at = HEAD.size + len(entries)
    for number, which, letter, is_packed, size in ENTRY.iter_unpack(entries):
        kind = letter.decode("latin-1")
        if kind not in _SIZES or at + size > length:
            return None
        layout[number, which] = kind, bool(is_packed), at, at + size
        at += size
    return layout if SUBJECTS in layout else None


@lru_cache(1024)
def _same(keys: frozenset[Key]) -> frozenset[Key]:
    return keys


def _is_sound(data: bytes) -> bool:
    if len(data) < HEAD.size:
        return False
    head = [*HEAD.unpack_from(data)]
    said, head[2] = head[2], 0
    return zlib.crc32(memoryview(data)[HEAD.size :], zlib.crc32(HEAD.pack(*head)[_CHECKED:])) == said  # type: ignore[no-any-return]
