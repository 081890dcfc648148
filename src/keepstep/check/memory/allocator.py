# SPDX-License-Identifier: Apache-2.0
"""The rules of PyTorch's caching allocator for CUDA, for a log of births and deaths. Pure: no device, no torch."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

MIB = 1 << 20
LEAST_BLOCK = 512
SMALL = MIB
"""Up to this size a block is of the small pool."""
SMALL_SEGMENT, LARGE_SEGMENT, ROUNDED_SEGMENT = 2 * MIB, 20 * MIB, 2 * MIB
OWN_SEGMENT_FROM = 10 * MIB


@dataclass(slots=True)
class _Block:
    address: int
    size: int
    pool: int
    is_free: bool = True
    before: _Block | None = None
    after: _Block | None = None


@dataclass
class Replayed:
    """What the device would hold."""

    allocated: int = 0
    """The most that was in use at once, rounded as the allocator rounds."""
    reserved: int = 0
    """The most that the allocator had taken from the device."""
    peak_event: int = -1
    """Where ``allocated`` was reached."""
    live: dict[int, int] = field(default_factory=dict)
    """What was in use then: the number of each storage, and its bytes."""
    full_event: int | None = None
    """Where the device was full, if it ever was."""


class Allocator:
    """Two pools of blocks, cut from segments and joined again. ``room``: bytes of the device that it may take."""

    def __init__(self, room: int | None = None) -> None:
        self._room = room
        self._free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        self._at: dict[int, _Block] = {}
        self._lowest = 1 << 48
        """CUDA gives addresses from the top down, and of two blocks of one size the lower one is taken."""
        self.reserved = 0
        self.allocated = 0

    def allocate(self, asked: int) -> _Block | None:
        """A block; None if the device is full."""
        size = max(LEAST_BLOCK, -(-asked // LEAST_BLOCK) * LEAST_BLOCK)
        pool = 0 if size <= SMALL else 1
        free = self._free[pool]
        place = bisect_left(free, (size, -1))
        block = self._at[free[place][1]] if place < len(free) else self._segment(size, pool)
        if block is None:
            return None
        self._take(block)
        left = block.size - size
        if left >= LEAST_BLOCK if pool == 0 else left > SMALL:
            rest = _Block(block.address + size, left, pool, before=block, after=block.after)
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, size
            self._give(rest)
        block.is_free = False
        self.allocated += block.size
        return block

    def free(self, block: _Block) -> None:
        self.allocated -= block.size
        block.is_free = True
        for other in (block.before, block.after):
            if other is not None and other.is_free:
                self._take(other)
                first, second = (other, block) if other is block.before else (block, other)
                first.size += second.size
                first.after = second.after
                if second.after is not None:
                    second.after.before = first
                block = first
        self._give(block)

    def _segment(self, size: int, pool: int) -> _Block | None:
        if pool == 0:
            whole = SMALL_SEGMENT
        else:
            whole = LARGE_SEGMENT if size < OWN_SEGMENT_FROM else -(-size // ROUNDED_SEGMENT) * ROUNDED_SEGMENT
        if self._room is not None and self.reserved + whole > self._room:
            self.release()
            if self.reserved + whole > self._room:
                return None
        self.reserved += whole
        self._lowest -= whole + ROUNDED_SEGMENT
        block = _Block(self._lowest, whole, pool)
        self._give(block)
        return block

    def release(self) -> None:
        """Segments of which nothing is in use go back to the device."""
        for free in self._free:
            for size, address in list(free):
                block = self._at[address]
                if block.before is None and block.after is None:
                    self._take(block)
                    self.reserved -= size

    def _give(self, block: _Block) -> None:
        insort(self._free[block.pool], (block.size, block.address))
        self._at[block.address] = block

    def _take(self, block: _Block) -> None:
        free = self._free[block.pool]
        del free[bisect_left(free, (block.size, block.address))]
        del self._at[block.address]


def replay(
    events: Iterable[tuple[int, int]], room: int | None = None, optional: frozenset[int] = frozenset()
) -> Replayed:
    """Births (number, bytes) and deaths (number, -bytes), in order. A number below 0 is no storage.

    ``optional``: what is done without where there is no room for it.
    """
    allocator, seen = Allocator(room), Replayed()
    blocks: dict[int, _Block] = {}
    for index, (number, size) in enumerate(events):
        if number < 0 or not size:
            continue
        if size < 0:
            if number in blocks:
                allocator.free(blocks.pop(number))
            continue
        block = allocator.allocate(size)
        if block is None and number in optional:
            continue
        if block is None:
            seen.full_event = index
            seen.live = {each: held.size for each, held in blocks.items()} | {number: size}
            return seen
        blocks[number] = block
        seen.reserved = max(seen.reserved, allocator.reserved)
        if allocator.allocated > seen.allocated:
            seen.allocated, seen.peak_event = allocator.allocated, index
    if seen.peak_event >= 0:
        seen.live = _in_use(events, seen.peak_event)
    return seen


def _in_use(events: Iterable[tuple[int, int]], last: int) -> dict[int, int]:
    live: dict[int, int] = {}
    for index, (number, size) in enumerate(events):
        if number >= 0 and size > 0:
            live[number] = size
        elif number >= 0:
            live.pop(number, None)
        if index == last:
            break
    return live
