# SPDX-License-Identifier: Apache-2.0
"""What a restart would cost, by the black boxes: the time to the first step, and the work since the last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from keepstep.supervise.watch.hang_detector import Sign
from keepstep.supervise.watch.vitals import OpenBox

LOOK_EVERY_S = 5.0
"""Checkpoints are searched for in the whole ring, which is not free; a ring holds some thousand steps."""


@dataclass
class ComingBack:
    """Of one attempt that began at this moment. All times are by the monotonic clock: nobody sets that one."""

    began: float
    first_step: float | None = None
    """When all ranks had done their first step."""
    imported: float | None = None
    """When the last rank had its framework imported: a spare begins there."""
    restored: bool | None = None
    """A checkpoint was read before the first step; None without boxes."""
    saved: bool | None = None
    """One was written after it."""
    saved_at: float | None = None
    """When the last one was begun."""
    saved_step: int | None = None
    progress: float | None = None
    """When a rank last made progress."""
    _look_due: float = field(default=0.0)

    def see(self, signs: Sequence[Sign], boxes: Iterable[OpenBox]) -> None:
        """Call this with every sign of life."""
        told = [sign.progress for sign in signs if sign.progress is not None]
        self.progress = max([*told, self.progress or 0.0]) if told else self.progress
        if self.first_step is None and signs and all(sign.steps for sign in signs):
            self.first_step = time.monotonic()
            imported = max((float(box.who.get("wall") or 0.0) for box in boxes), default=0.0)
            self.imported = self.first_step - (time.time() - imported) if imported else None
        if time.monotonic() >= self._look_due:
            self.look(boxes)

    def look(self, boxes: Iterable[OpenBox]) -> None:
        """Where checkpoints were written and read."""
        self._look_due = time.monotonic() + LOOK_EVERY_S
        for box in boxes:
            found = box.checkpointed()
            self.restored = bool(self.restored) or 0 in found
            later = [(at, step) for step, at in found.items() if step > 0]
            self.saved = bool(self.saved) or bool(later)
            if later and max(later)[0] / 1e9 > (self.saved_at or 0.0):
                self.saved_at, self.saved_step = max(later)[0] / 1e9, max(later)[1]

    def start_s(self, *, warm: bool) -> float | None:
        """From a start to the first step, as measured; ``warm``: with spares that have the framework imported."""
        if self.first_step is None:
            return None
        since = self.imported if warm and self.imported is not None else self.began
        return max(0.0, self.first_step - since)

    def work_s(self) -> float | None:
        """All of this attempt's training so far."""
        if self.first_step is None or self.progress is None:
            return None
        return max(0.0, self.progress - self.first_step)

    def unsaved_s(self) -> float | None:
        """Its training since the last checkpoint; all of it if there is none."""
        if self.saved_at is None or self.progress is None:
            return self.work_s()
        return max(0.0, self.progress - self.saved_at)
