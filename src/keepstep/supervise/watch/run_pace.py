# SPDX-License-Identifier: Apache-2.0
"""How fast the run goes, for the status line, and whether it has become slower. A finding, never a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from keepstep.base.wording import duration, size
from keepstep.signals.pace import CROWDED, late_ranks
from keepstep.signals.pace_jump import jump_in
from keepstep.supervise.watch.hang_detector import Sign
from keepstep.supervise.watch.vitals import Boxes, crowding, recent_of

WINDOW_S = 60.0
SAGS = 1.5
"""Slower means: a step takes this many times as long as in the best minute before ..."""
WINDOWS = 3
"""... for this many minutes in a row."""
LATE_EVERY_S, JUMP_EVERY_S = 10.0, 3.0
MOST_RANKS = 64
QUIET_S, QUIET_STEPS = 2.0, 5
"""Without progress for longer than this, a run has no speed."""


@dataclass(frozen=True, slots=True)
class Sagging:
    """Steps take longer than they did."""

    now_s: float
    before_s: float
    steps: int
    crowding: float = 1.0

    @property
    def words(self) -> str:
        crowded = (
            f" ({self.crowding:.0f} processes compete for each core of this host)" if self.crowding >= CROWDED else ""
        )
        before = f"before, it took {self.before_s:.3g} s{crowded}"
        return f"a step has taken {self.now_s:.3g} s for the last {WINDOWS} minutes; {before}"


@dataclass
class Pace:
    _times: list[float] = field(default_factory=list)
    _best: float | None = None
    _slow: int = 0
    _window_ends: float = 0.0
    _told: bool = False
    _late_due: float = 0.0
    _slowest: str = ""
    _jumped: bool = False
    _jump_due: float = 0.0

    def see(self, signs: Sequence[Sign], boxes: Boxes, now: float) -> Sagging | None:
        """Call once per second. Returns a slowdown once, when it is found."""
        usual = [sign.usual_s for sign in signs if sign.usual_s]
        if usual:
            self._times.append(median(usual))
        if now >= self._late_due and len(signs) > 1:
            self._late_due = now + LATE_EVERY_S
            self._slowest = self._find_slowest(boxes)
        if now < self._window_ends:
            return None
        self._window_ends = now + WINDOW_S
        times, self._times = self._times, []
        if len(times) < WINDOW_S / 4:
            return None
        typical = median(times)
        best, self._best = self._best, min(typical, self._best or typical)
        self._slow = self._slow + 1 if best is not None and typical > SAGS * best else 0
        if self._slow < WINDOWS or self._told or best is None:
            return None
        self._told = True
        return Sagging(typical, best, max(sign.steps for sign in signs), crowding())

    def jump(self, boxes: Boxes, now: float) -> str:
        """That steps became many times slower, in words, once. `keepstep why` reads it from the black boxes again."""
        if self._jumped or now < self._jump_due:
            return ""
        self._jump_due = now + JUMP_EVERY_S
        recent = recent_of(boxes.open.values()) if len(boxes.open) <= MOST_RANKS else {}
        found = next((jump for records in recent.values() if (jump := jump_in(records)) is not None), None)
        self._jumped = found is not None
        return found.words if found is not None else ""

    def status(
        self, signs: Sequence[Sign], metrics: dict[str, Any], age_s: float, attempt: int, left_s: float | None = None
    ) -> str:
        """``attempt 1 · 3 min · step 1200 · 12.3 steps/s · 20 min left · slowest rank 3 · 3.2 of 16 GB``.

        A run that makes no step has no speed: then how long that has lasted is said instead.
        """
        parts = [f"attempt {attempt}", duration(age_s)]
        guarded = [sign for sign in signs if sign.phase is not None]
        if guarded:
            parts.append(f"step {min(sign.steps for sign in guarded)}")
            usual = max((sign.usual_s or 0.0 for sign in guarded), default=0.0)
            quiet = min((sign.at - sign.progress for sign in guarded if sign.progress is not None), default=0.0)
            if usual and quiet > max(QUIET_S, QUIET_STEPS * usual):
                parts.append(f"no progress for {duration(quiet)}")
            elif usual:
                parts.append(f"{1 / usual:.1f} steps/s" if usual < 2 else f"{usual:.1f} s per step")
            phases = {sign.phase.words for sign in guarded if sign.phase is not None}
            if len(phases) == 1 and not usual:
                parts.append(phases.pop())
        if left_s is not None:
            parts.append(f"{duration(left_s)} left")
        if self._slowest:
            parts.append(self._slowest)
        memory = metrics.get("memory")
        if memory:
            ranks = sum(each["rss"] for each in metrics.get("ranks", {}).values())
            parts.append(f"memory {size(ranks)} (free {size(memory['available'])} of {size(memory['total'])})")
        for gpu in metrics.get("gpus", [])[:8]:
            parts.append(f"gpu{gpu['index']} {size(gpu['used'])}")
        return "keepstep: " + " · ".join(parts)

    @staticmethod
    def _find_slowest(boxes: Boxes) -> str:
        late = late_ranks(recent_of(boxes.open.values())) if len(boxes.open) <= MOST_RANKS else ()
        return f"slowest rank {late[0].rank} (+{late[0].seconds:.2g} s {late[0].phase.name.lower()})" if late else ""
