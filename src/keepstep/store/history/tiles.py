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
SMALL, PIECE = 16 << 10, 1 << 20
"""A tile of up to so many bytes is read at once; in pieces of so many a damaged file is searched."""
_CHECKED = 16
"""Where the checksum's bytes begin."""
_SIZES = {"B": 1, "b": 1, "f": 4, "d": 8, "I": 4}
"""By type: ``B`` a share, ``b`` a small whole number."""
Numbers = Sequence[float]
Key = tuple[int, int]
"""The number of a reading, and which value of it."""


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
        ((0, 0), kind, subjects),
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
    """A tile whose columns are unpacked when they are asked for."""

    start: float
    span: float
    kind: int
    size: int
    read: Callable[[int, int], bytes]
    """The bytes of its file from here to there."""
    places: dict[Key, tuple[str, bool, int, int]]
    whole: tuple[int, int]
    """Where it begins and ends in its file."""
    is_sound: bool | None = None
    """Whether its checksum is right; None: not looked at yet."""

    @property
    def ranks(self) -> array[int]:
        found, data = array("I"), self.raw((0, 0))
        found.frombytes(data[: len(data) // 4 * 4])
        return found

    @property
    def names(self) -> list[str]:
        return self.raw((0, 0)).decode("utf-8", "replace").split("\n")[: self.size]

    def raw(self, key: Key) -> bytes:
        """The bytes of a column, one share for each subject where it is kept in bytes; empty if there is none."""
        if self.is_sound is None:
            self.is_sound = _is_sound(self.read(*self.whole))
        if key not in self.places or not self.is_sound:
            return b""
        kind, is_packed, begin, end = self.places[key]
        data = self.read(begin, end)
        if not is_packed:
            return data
        most = self.size * _SIZES[kind] if key != (0, 0) or self.kind == RANKS else 1 << 20
        unpacker = zlib.decompressobj()
        try:
            return unpacker.decompress(data, most + 1)
        except zlib.error:
            return b""

    def column(self, key: Key) -> Sequence[float]:
        """One number for each subject; empty if there is none, or not one for each."""
        data = self.raw(key)
        kind = self.places[key][0] if key in self.places else "B"
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


def tiles_in(read: Callable[[int, int], bytes], begin: int, end: int) -> Iterator[PackedTile]:
    """The tiles of a file between two places, in their order. ``read``: as of :class:`PackedTile`, for later too.

    Of a large tile only the head is read: where the next one begins must be right, and its checksum is looked at when
    it is used.
    """
    at = begin
    while 0 <= at <= end - HEAD.size:
        tile = _tile(read, at, end)
        if tile is not None:
            yield tile
        at = tile.whole[1] if tile is not None else _next(read, at + 1, end)


def _next(read: Callable[[int, int], bytes], at: int, end: int) -> int:
    """Where the next tile may begin."""
    while at < end and (piece := read(at, min(at + PIECE, end))):
        found = piece.find(MAGIC)
        if found >= 0:
            return at + found
        at += max(1, len(piece) - len(MAGIC) + 1)
    return end


def _tile(read: Callable[[int, int], bytes], at: int, end: int) -> PackedTile | None:
    data = read(at, min(at + SMALL, end))
    if len(data) < HEAD.size:
        return None
    magic, length, _, start, span, kind, _, columns, subjects = HEAD.unpack_from(data)
    if magic != MAGIC or not HEAD.size <= length <= LONGEST or at + length > end or subjects > MOST_RANKS:
        return None
    is_small = length <= len(data)
    if is_small and not _is_sound(data[:length]):
        return None
    if not is_small and at + length <= end - len(MAGIC) and read(at + length, at + length + len(MAGIC)) != MAGIC:
        return None
    if not (math.isfinite(start) and math.isfinite(span) and span >= 0) or columns * ENTRY.size > length - HEAD.size:
        return None
    if HEAD.size + columns * ENTRY.size > len(data):
        data = read(at, at + HEAD.size + columns * ENTRY.size)
    places: dict[Key, tuple[str, bool, int, int]] = {}
    body = at + HEAD.size + columns * ENTRY.size
    for number, which, letter, is_packed, size in ENTRY.iter_unpack(data[HEAD.size : body - at]):
        name = letter.decode("latin-1")
        if name not in _SIZES or body + size > at + length:
            return None
        places[number, which] = name, bool(is_packed), body, body + size
        body += size
    if (0, 0) not in places:
        return None
    return PackedTile(start, span, kind, subjects, read, places, (at, at + length), True if is_small else None)


def _is_sound(data: bytes) -> bool:
    if len(data) < HEAD.size:
        return False
    head = [*HEAD.unpack_from(data)]
    said, head[2] = head[2], 0
    return zlib.crc32(memoryview(data)[HEAD.size :], zlib.crc32(HEAD.pack(*head)[_CHECKED:])) == said  # type: ignore[no-any-return]
