# SPDX-License-Identifier: Apache-2.0
"""Sums over a file's bytes, a block at a time, in bounded memory.

CRC-32 finds every flipped bit and every burst of up to 32 bits, and runs at more than a gigabyte per second on one core
in the standard library; zlib lets other threads run meanwhile. It protects against accidents, not against a forger.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from keepstep.base.lazy_dataclass import dataclass

BLOCK = 16 << 20
_PIECE = 512 << 10
"""So much fits into a core's cache between the read and the sum: a third faster than 2 MiB."""
MOST_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSums:
    """One file as it was when it was read. ``blocks``: a sum for every 16 MiB."""

    size: int
    modified_ns: int
    device: int
    inode: int
    blocks: tuple[int, ...]


class Changing(OSError):
    """The file was written to while it was read."""


def sums_of(handle: int, *, threads: int = 1, rest: Callable[[], None] = lambda: None) -> FileSums:
    """The sums of an open file. ``rest`` is called between pieces. Raises ``Changing`` if somebody writes to it."""
    before = os.fstat(handle)
    starts = range(0, before.st_size, BLOCK)

    def of_block(start: int) -> int:
        return _sum(handle, start, min(start + BLOCK, before.st_size), rest)

    if threads > 1 and len(starts) > 1:
        with ThreadPoolExecutor(max_workers=min(threads, len(starts))) as pool:
            blocks = tuple(pool.map(of_block, starts))
    else:
        blocks = tuple(of_block(start) for start in starts)
    after = os.fstat(handle)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Changing("it was written to while it was read")
    return FileSums(
        size=before.st_size, modified_ns=before.st_mtime_ns, device=before.st_dev, inode=before.st_ino, blocks=blocks
    )


def _sum(handle: int, start: int, end: int, rest: Callable[[], None]) -> int:
    value, buffer = 0, memoryview(bytearray(min(_PIECE, end - start)))
    while start < end:
        done = os.preadv(handle, [buffer[: min(len(buffer), end - start)]], start)
        if done <= 0:
            raise Changing("it became shorter while it was read")
        value = zlib.crc32(buffer[:done], value)
        start += done
        rest()
    return value


def threads_here() -> int:
    """How many threads may read at once on this machine."""
    return max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1))
