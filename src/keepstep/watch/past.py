# SPDX-License-Identifier: Apache-2.0
"""The past of a run, as the page draws it: cells of rank and time, and series. Types, and what is pure about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from keepstep.signals.blackbox import BoxPhase
from keepstep.store.history.reader import Point

__all__ = ["WAITS", "WORDS", "WORST", "Cell", "Grid", "Past", "Point", "fold", "pack", "thin", "worst"]


class Cell(IntEnum):
    """What a rank did in a cell of the heat map. ``BoxPhase`` plus one, and what no box says."""

    UNKNOWN = 0
    START = 1
    COMPILE = 2
    INPUT = 3
    COMPUTE = 4
    CHECKPOINT = 5
    EVALUATION = 6
    END = 7
    RETRY = 8
    STUCK = 9
    """No progress for far longer than its steps take."""
    GONE = 10
    """Its process was gone while the attempt went on."""


WORDS = {Cell.UNKNOWN: "nothing recorded", Cell.STUCK: "no progress", Cell.GONE: "gone"} | {
    Cell(each + 1): each.words for each in BoxPhase
}
WORST = (
    Cell.GONE, Cell.STUCK, Cell.RETRY, Cell.INPUT, Cell.COMPILE, Cell.CHECKPOINT, Cell.EVALUATION, Cell.START,
    Cell.COMPUTE, Cell.END, Cell.UNKNOWN,
)  # fmt: skip
"""The worst first: where several ranks share a pixel, this one is seen."""
WAITS = 15
"""A cell's wait is one of so many steps."""
_BADNESS = {cell: len(WORST) - place for place, cell in enumerate(WORST)}
_BY_BYTE = bytes(_BADNESS[Cell(min(code & 15, 10))] * 16 + (code >> 4) for code in range(256))
"""How bad a packed cell is: first what the rank did, then how long it waited."""
_OF_BADNESS = bytes(
    WORST[len(WORST) - (bad >> 4)] | (bad & 15) << 4 if 1 <= bad >> 4 <= len(WORST) else 0 for bad in range(256)
)
"""And back."""


class Grid(NamedTuple):
    """One row per rank: what it did in its low four bits, its wait in the upper ones."""

    ranks: tuple[int, ...]
    start: float
    end: float
    rows: tuple[bytes, ...]


class Past(Protocol):
    """What can be asked about a run's past."""

    @property
    def span(self) -> tuple[float, float]: ...

    def grid(self, start: float, end: float, columns: int) -> Grid: ...

    def series(self, name: str, start: float, end: float, points: int) -> dict[str, list[Point]]:
        """By who: ``all ranks``, ``rank 3``, a host."""
        ...


def pack(cell: int, wait: float | None) -> int:
    return min(cell, 10) | (min(WAITS, int((wait or 0.0) * WAITS + 0.5)) << 4)


def fold(grid: Grid, most: int) -> list[tuple[tuple[int, int], bytes]]:
    """At most so many rows: several ranks share one, and the worst of them is seen. With the first and last rank."""
    per = -(-len(grid.ranks) // most) if grid.ranks else 1
    found = []
    for begin in range(0, len(grid.ranks), per):
        some = grid.rows[begin : begin + per]
        row = some[0] if len(some) == 1 else worst(some)
        found.append(((grid.ranks[begin], grid.ranks[begin + len(some) - 1]), row))
    return found


def worst(rows: Sequence[bytes]) -> bytes:
    """The worst value of each column."""
    return bytes(map(max, *(row.translate(_BY_BYTE) for row in rows))).translate(_OF_BADNESS)


def thin(readings: Iterable[tuple[float, float]], start: float, end: float, points: int) -> list[Point]:
    """Readings as points of equal width, each with its extremes."""
    width = max(end - start, 1e-9) / max(points, 1)
    bins: dict[int, list[float]] = {}
    for at, value in readings:
        if start <= at <= end:
            bins.setdefault(min(points - 1, int((at - start) / width)), []).append(value)
    return [
        Point(start + (place + 0.5) * width, min(some), sum(some) / len(some), max(some))
        for place, some in sorted(bins.items())
    ]
