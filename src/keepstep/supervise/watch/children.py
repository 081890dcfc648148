# SPDX-License-Identifier: Apache-2.0
"""When the processes below each rank last did anything: a rank that waits for its own children is not idle then.

A child that was started since the last progress belongs to what the rank does now, so any little sign of it counts.
One that was there before (a logger, a loader's worker) may be busy by itself: it counts where the rank is known to wait
for its children, or where it does much.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from keepstep.base.proc_stat import TICKS, ProcStat
from keepstep.supervise.watch.hang_detector import WORKS_BYTES, WORKS_SHARE
from keepstep.supervise.watch.vitals import is_helper, transferred

ROUNDED_S = 0.1
"""The kernel tells in hundredths of a second when a process was started."""


@dataclass
class _Below:
    """What the processes below one rank had done when they were last looked at."""

    done: dict[int, tuple[float, int]] = field(default_factory=dict)
    """Of each: seconds of processor time, and bytes read and written."""
    young: frozenset[int] = frozenset()
    moved: float | None = None
    """When one of them last did anything at all ..."""
    young_moved: float | None = None
    """... and one that was started since the last progress ..."""
    worked: float | None = None
    """... and all together did much."""


class Children:
    """``see`` now and then, while nothing moves."""

    def __init__(self) -> None:
        self._below: dict[int, _Below] = {}

    def forget(self) -> None:
        self._below.clear()

    def see(
        self,
        trees: Mapping[int, set[int]],
        listed: Mapping[int, ProcStat],
        now: float,
        passed: float,
        since: Mapping[int, float],
    ) -> None:
        """``trees``: each rank's process with all below it. ``since``: its last progress, by the monotonic clock."""
        booted = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
        for pid, tree in trees.items():
            below = [each for each in tree if each != pid and each in listed and not is_helper(each)]
            done = {each: (listed[each].cpu_s, transferred(each)) for each in below}
            known = self._below.get(pid)
            memory = self._below.setdefault(pid, _Below())
            after = since[pid] + booted - ROUNDED_S
            memory.young = frozenset(each for each in below if listed[each].started / TICKS > after)
            before, memory.done = memory.done, done
            if known is None:
                continue
            busy = {each for each in done.keys() | before.keys() if done.get(each) != before.get(each)}
            memory.moved = now if busy else memory.moved
            memory.young_moved = now if busy & memory.young else memory.young_moved
            cpu_s, moved = (
                sum(done[each][n] - before[each][n] for each in done.keys() & before.keys()) for n in (0, 1)
            )
            if cpu_s > WORKS_SHARE * passed or moved > WORKS_BYTES * passed:
                memory.worked = now

    def has_young(self, pid: int) -> bool:
        """Whether a process that was started since the last progress lives below this rank."""
        return pid in self._below and bool(self._below[pid].young)

    def worked(self, pid: int, *, awaited: bool) -> float | None:
        """When they last did what counts. ``awaited``: the rank is known to wait for them."""
        below = self._below.get(pid, _Below())
        told = (below.worked, below.young_moved, below.moved if awaited else None)
        return max((at for at in told if at is not None), default=None)
