# SPDX-License-Identifier: Apache-2.0
"""Sums over a file's bytes, a block at a time, in bounded memory. They protect against accidents, not a forger.

CRC-32 over all bytes needs nothing but the standard library. Where the training has loaded NumPy, half a MiB is laid
out as 64 rows of 1,021 numbers, and the CRCs are over the parities of all columns and of all rows: three times as
fast. One flipped bit, or two wherever they are, never go unnoticed: two in the same bit of one column are in two
rows. The number of columns is prime, so sectors or pages of the disk that change places show, too. What is missed: four
flips of one bit at the corners of a rectangle, and of three or more what CRC-32 misses, one in four billion. Both ways
let other threads run meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import struct
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from operator import xor
from typing import Any

from keepstep.base.lazy_dataclass import dataclass

BLOCK = 16 << 20
CRC, PARITIES = "crc32", "parities"
_ROWS, _COLUMNS = 64, 1021
_PIECE = _ROWS * _COLUMNS * 8
"""So much fits into a core's cache between the read and the sum: a third faster than 2 MiB."""
MOST_THREADS = 4
ENOUGH_PLACES = 8
"""In less than 1 kB it does not show whether little or all of a file differs."""
_DIGITS = 4
_PLACES = range(0, _ROWS * _DIGITS, _DIGITS)
_ROW = _COLUMNS * 8
_GROUP = 16 * 8
"""So many columns are one place in a small file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSums:
    """One file as it was when it was read. ``blocks``: a sum for every 16 MiB. ``places``: 16 bits for each of 64
    places in it, as hexadecimal digits; empty with CRC-32."""

    size: int
    modified_ns: int
    device: int
    inode: int
    blocks: tuple[int, ...]
    by: str = CRC
    places: str = ""

    def differs_in_few_places(self, other: FileSums) -> bool:
        """Whether damage explains it better than another save: of enough places nearly all are as they were."""
        if not self.places or not other.places or self.size != other.size:
            return False
        used = min(_ROWS, -(-self.size // (_GROUP if _is_small(self.size) else _ROW)))
        differing = sum(self.places[at : at + _DIGITS] != other.places[at : at + _DIGITS] for at in _PLACES)
        return used >= ENOUGH_PLACES and differing <= max(2, used // 8)


class Changing(OSError):
    """The file was written to while it was read."""


def sums_of(
    handle: int,
    *,
    threads: int = 1,
    by: str | None = None,
    imports: bool = False,
    do: Callable[[Callable[[], tuple[int, int]]], tuple[int, int]] = lambda piece: piece(),
) -> FileSums:
    """The sums of an open file, of the kind that is fastest here unless ``by`` says which. ``imports``: NumPy may be
    loaded for it. ``do`` calls what sums one block, wherever it likes. Raises ``Changing`` if somebody writes to it."""
    before = os.fstat(handle)
    starts = range(0, before.st_size, BLOCK)
    by = by or (PARITIES if "numpy" in sys.modules else CRC)
    if imports and by == PARITIES:
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy")

    def of_block(start: int) -> tuple[int, int]:
        return _sum(handle, start, min(start + BLOCK, before.st_size), by == PARITIES, _is_small(before.st_size))

    if threads > 1 and len(starts) > 1:
        with ThreadPoolExecutor(max_workers=min(threads, len(starts))) as pool:
            blocks = tuple(pool.map(of_block, starts))
    else:
        blocks = tuple(do(partial(of_block, start)) for start in starts)
    after = os.fstat(handle)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Changing("it was written to while it was read")
    return FileSums(
        size=before.st_size,
        modified_ns=before.st_mtime_ns,
        device=before.st_dev,
        inode=before.st_ino,
        blocks=tuple(value for value, _ in blocks),
        by=by,
        places=_digits(reduce(xor, (places for _, places in blocks), 0)) if by == PARITIES else "",
    )


def _is_small(size: int) -> bool:
    return size < ENOUGH_PLACES * _ROW


def _digits(places: int) -> str:
    """64 bits of each place, folded to 16."""
    words = struct.unpack(f"<{_ROWS}Q", places.to_bytes(_ROWS * 8, "little"))
    return "".join(f"{(word ^ word >> 16 ^ word >> 32 ^ word >> 48) & 0xFFFF:0{_DIGITS}x}" for word in words)


def _sum(handle: int, start: int, end: int, by_parities: bool, is_small: bool) -> tuple[int, int]:
    """Of parities, the CRC of the columns is in the upper half. And the parities of the places, all pieces together."""
    value, of_rows, places = 0, 0, 0
    buffer = memoryview(bytearray(_PIECE if by_parities else min(_PIECE, end - start)))
    parities = _parities(buffer) if by_parities else None
    while start < end:
        size = _fill(handle, buffer[: min(_PIECE, end - start)], start)
        if parities is None:
            value = zlib.crc32(buffer[:size], value)
        else:
            buffer[size:] = bytes(_PIECE - size)
            columns, rows = parities()
            value, of_rows = zlib.crc32(columns, value), zlib.crc32(rows, of_rows)
            places ^= _grouped(bytes(columns)) if is_small else int.from_bytes(bytes(rows), "little")
        start += size
    return (value if parities is None else value << 32 | of_rows), places


def _grouped(columns: bytes) -> int:
    """64 numbers: those of neighbouring columns together."""
    numbers = struct.unpack(f"<{_COLUMNS}Q", columns)
    groups = (reduce(xor, numbers[at : at + _GROUP // 8]) for at in range(0, _COLUMNS, _GROUP // 8))
    return int.from_bytes(struct.pack(f"<{_ROWS}Q", *groups), "little")


def _fill(handle: int, buffer: memoryview, start: int) -> int:
    """All of it: where one piece ends must not depend on what the system gives at once."""
    size = 0
    while size < len(buffer):
        done = os.preadv(handle, [buffer[size:]], start + size)
        if done <= 0:
            raise Changing("it became shorter while it was read")
        size += done
    return size


def _parities(buffer: memoryview) -> Callable[[], tuple[Any, Any]]:
    """A function that gives those of the columns and of the rows of what is in the buffer. Without NumPy it is slow."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numbers = numpy.frombuffer(buffer, dtype="<u8").reshape(_ROWS, _COLUMNS)
        return lambda: (numpy.bitwise_xor.reduce(numbers, axis=0), numpy.bitwise_xor.reduce(numbers, axis=1))

    def parities() -> tuple[bytes, bytes]:
        numbers = struct.unpack(f"<{_ROWS * _COLUMNS}Q", buffer)
        columns = (reduce(xor, numbers[column::_COLUMNS]) for column in range(_COLUMNS))
        rows = (reduce(xor, numbers[row * _COLUMNS : (row + 1) * _COLUMNS]) for row in range(_ROWS))
        return struct.pack(f"<{_COLUMNS}Q", *columns), struct.pack(f"<{_ROWS}Q", *rows)

    return parities


def threads_here() -> int:
    """How many threads may read at once on this machine."""
    return max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1))
