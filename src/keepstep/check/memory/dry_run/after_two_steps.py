# SPDX-License-Identifier: Apache-2.0
"""What follows the two steps, for a while: longer batches, and the validation at the end of an epoch.

When a step allocates what the one before it did, the loaders say that they are at their end, and the script goes on
to what it does then. The answer stands already: what fails from here on is no failure of the dry run.
"""

from __future__ import annotations

from collections.abc import Callable

from keepstep.check.memory.dry_run.clock import Clock
from keepstep.check.memory.dry_run.storage_log import StorageLog

MOST_STEPS = 8
ALL_OF_ONE_STEP = 2
"""From the second call on, what was born is that of one step."""


class AfterTwoSteps:
    """``finish`` ends the dry run. ``seconds``: how long it may go on."""

    def __init__(self, log: StorageLog, clock: Clock, finish: Callable[[], None], seconds: float) -> None:
        self._log, self._clock, self._finish, self._seconds = log, clock, finish, seconds
        self._steps = 0
        self._seen = 0
        self._last = (0, 0)

    @property
    def reached(self) -> bool:
        return self._steps > 0

    def stepped(self) -> None:
        """The second step has ended, or one after it."""
        if self._log.loaders_end or not self._seconds or self._steps >= MOST_STEPS:
            self._finish()
        if not self._steps:
            self._clock.left(self._seconds)
        self._steps += 1
        born = [size for number, size in self._log.events[self._seen :] if number >= 0 and size > 0]
        self._seen, before, self._last = len(self._log.events), self._last, (len(born), sum(born))
        self._log.loaders_end = bool(self._log.loaders) and self._last == before
        self._log.lengths_differ = self._steps > ALL_OF_ONE_STEP and self._last != before
