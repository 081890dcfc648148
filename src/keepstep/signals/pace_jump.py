# SPDX-License-Identifier: Apache-2.0
"""Whether a rank's steps suddenly became many times slower and stayed so, by its black box. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from keepstep.signals.blackbox import Record, RecordKind
from keepstep.signals.processor_wait import held_share

WARM_UP, FEWEST = 2, 12
"""Steps that do not count, and how many quick ones are needed."""
SLOW_STEPS, SLOW_S = 5, 4.0
"""The slow ones: at least this many, over at least this long, up to the end."""
TIMES, LEAST_S = 8.0, 0.2
"""A slow step takes this many times as long as a quick one, and at least this long."""
SELDOM = 0.1
"""Share of slow ones among the quick: more is no jump. Steps with a save or an evaluation are slow too."""
HELD = 0.5
"""Share of its time in which the rank waits for a processor: then the host is crowded, and another rule says so."""


@dataclass(frozen=True, slots=True)
class PaceJump:
    step: int
    """The first slow one."""
    began: int
    """When it began, by the rank's monotonic clock in nanoseconds."""
    before_s: float
    after_s: float
    steps: int

    @property
    def words(self) -> str:
        times = f"{self.after_s / self.before_s:.0f} times as long as before"
        return f"since step {self.step}, a step takes {self.after_s:.2g} s, {times} ({self.steps} steps so far)"


def jump_in(records: Sequence[Record]) -> PaceJump | None:
    """``records``: oldest first."""
    steps = [r for r in records if r.kind == RecordKind.STEP and r.extra > 0][WARM_UP:]
    if len(steps) < FEWEST + SLOW_STEPS:
        return None
    quick = median(sorted(r.extra for r in steps)[: max(FEWEST, len(steps) // 2)])
    slow = max(TIMES * quick, LEAST_S * 1e9)
    first = len(steps)
    while first and steps[first - 1].extra >= slow:
        first -= 1
    before, after = steps[:first], steps[first:]
    if len(before) < FEWEST or len(after) < SLOW_STEPS or sum(r.extra for r in after) < SLOW_S * 1e9:
        return None
    if sum(r.extra >= slow for r in before) > SELDOM * len(before) or (held_share(records) or 0.0) > HELD:
        return None
    usual = [median(r.extra for r in part) / 1e9 for part in (before, after)]
    return PaceJump(after[0].value, after[0].at - after[0].extra, usual[0], usual[1], len(after))
