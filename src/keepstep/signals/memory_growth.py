# SPDX-License-Identifier: Apache-2.0
"""Whether memory rises from step to step, by readings of it. Pure.

Memory of a healthy training rises too: while it warms up (ever less), at the first evaluation or checkpoint (at once),
while a cache is filled in the first epoch (and not after it), and as workers come and go (and falls again). Only memory
that rises by about as much in every part of a long stretch of steps is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

STRETCHES = (2 / 3, 1 / 3)
"""The last share of the steps that is examined. The first third is warm-up, whatever it shows."""
PARTS = 5
FEWEST = 2 * PARTS
"""Readings at different steps in a stretch."""
EVENLY = (0.4, 2.5)
"""The rise per step in each part, as a multiple of the median."""
GOES_ON = 0.75
"""The later half's rise per step must be at least this share of the earlier half's: warm-up rises ever less."""
LEAST_BYTES = 192 << 20
LEAST_SHARE = 0.2
"""The smallest rise in a stretch that counts: in bytes, and as a share."""


class MemoryReading(NamedTuple):
    """A rank's private memory (without file pages and shared memory) after this many steps."""

    at: float
    steps: int
    bytes: int
    epoch: int | None = None
    """How many epochs had begun; None if unknown."""


@dataclass(frozen=True, slots=True)
class Rise:
    """Memory of a rank rose evenly from one reading to another."""

    first: MemoryReading
    last: MemoryReading
    epochs_before: int
    """Epochs that were over when it began; a cache may fill in the first."""
    others: int | None = None
    """The largest rise of any other rank in the same time; None: there is no other."""

    @property
    def bytes(self) -> int:
        return self.last.bytes - self.first.bytes

    @property
    def steps(self) -> int:
        return self.last.steps - self.first.steps

    @property
    def seconds(self) -> float:
        return self.last.at - self.first.at

    @property
    def epochs(self) -> int:
        """Epochs that began while it rose."""
        return (self.last.epoch or 0) - (self.first.epoch or 0)


def rises(series: Mapping[int, Sequence[MemoryReading]]) -> dict[int, Rise]:
    """The ranks whose memory rises, each with its rise and that of the others in the same time."""
    found: dict[int, Rise] = {}
    for rank, readings in series.items():
        rise = steady_rise(readings)
        if rise is not None:
            beside = [_rose(other, rise.first.at, rise.last.at) for name, other in series.items() if name != rank]
            known = [each for each in beside if each is not None]
            found[rank] = Rise(rise.first, rise.last, rise.epochs_before, max(known) if known else None)
    return found


def steady_rise(readings: Sequence[MemoryReading]) -> Rise | None:
    """The rise still going on at the end of the readings, if there is one."""
    told = _once_a_step(readings)
    if not told:
        return None
    whole = told[-1].steps - told[0].steps
    for share in STRETCHES:
        begin = told[-1].steps - share * whole
        stretch = [each for each in told if each.steps >= begin]
        lows = _lows(stretch)
        if len(lows) == PARTS and _is_even(lows) and _goes_on(lows, told, begin, whole) and _is_new(lows, told, begin):
            return Rise(lows[0], lows[-1], (lows[0].epoch or 0) - (told[0].epoch or 0))
    return None


def _once_a_step(readings: Sequence[MemoryReading]) -> list[MemoryReading]:
    """The lowest reading per step count: it leaves out what comes and goes between two steps, and the memory freed
    after the last one."""
    kept: list[MemoryReading] = []
    for each in readings:
        if each.steps < 1:
            continue
        if kept and each.steps <= kept[-1].steps:
            if each.steps == kept[-1].steps and each.bytes < kept[-1].bytes:
                kept[-1] = each
            continue
        kept.append(each)
    return kept[:-1]


def _lows(stretch: Sequence[MemoryReading]) -> list[MemoryReading]:
    """The lowest reading of each part."""
    if len(stretch) < FEWEST:
        return []
    bounds = [round(len(stretch) * n / PARTS) for n in range(PARTS + 1)]
    return [min(stretch[low:high], key=lambda each: each.bytes) for low, high in pairwise(bounds)]


def _rates(lows: Sequence[MemoryReading]) -> list[float]:
    return [(b.bytes - a.bytes) / max(1, b.steps - a.steps) for a, b in pairwise(lows)]


def _is_even(lows: Sequence[MemoryReading]) -> bool:
    rose = lows[-1].bytes - lows[0].bytes
    if rose < max(LEAST_BYTES, LEAST_SHARE * lows[0].bytes):
        return False
    rates = _rates(lows)
    usual = median(rates)
    return usual > 0 and min(rates) >= EVENLY[0] * usual and max(rates) <= EVENLY[1] * usual


def _goes_on(lows: Sequence[MemoryReading], told: Sequence[MemoryReading], begin: float, whole: int) -> bool:
    rates = _rates(lows)
    half = len(rates) // 2
    later = sum(rates[half:]) / len(rates[half:])
    if later < GOES_ON * sum(rates[:half]) / half:
        return False
    if begin - told[0].steps < 0.5 * whole:
        return True
    before = [each for each in told if begin - whole / 3 <= each.steps <= begin]
    return len(before) < 2 or later >= GOES_ON * (before[-1].bytes - before[0].bytes) / max(
        1, before[-1].steps - before[0].steps
    )


def _is_new(lows: Sequence[MemoryReading], told: Sequence[MemoryReading], begin: float) -> bool:
    """Whether it was never as high before: memory that rises and falls again is no leak."""
    return lows[-1].bytes > max((each.bytes for each in told if each.steps < begin), default=0)


def _rose(readings: Sequence[MemoryReading], since: float, until: float) -> int | None:
    there = [each for each in readings if since <= each.at <= until]
    return there[-1].bytes - there[0].bytes if len(there) > 1 else None
