# SPDX-License-Identifier: Apache-2.0
"""How long reading a log, and one line of it, may take: hostile input must not stall us.

Processor time counts, so a busy machine gives up no sooner. What was given up is reported, so it is not taken
for read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PER_LINE_S = 0.02
"""Checked between two searches, so the last search of a line may exceed it."""
PER_FILE_S = 20.0
PER_MEGABYTE_S = 1.0
"""More than the slowest way to read a log takes, on a slow machine."""

Clock = Callable[[], float]

_set_up_s = 0.0


@contextmanager
def set_up() -> Iterator[None]:
    """What is imported or compiled on first use is no fault of the line that needs it."""
    global _set_up_s
    began = time.thread_time()
    try:
        yield
    finally:
        _set_up_s += time.thread_time() - began


def reading_time() -> float:
    """Of the processor, without what was set up meanwhile."""
    return time.thread_time() - _set_up_s


class LogPatience:
    """Of one log."""

    def __init__(self, per_file_s: float = PER_FILE_S, clock: Clock = reading_time, until: float = math.inf) -> None:
        """``until``: when the time for all logs together is over, as ``time.monotonic`` tells it."""
        self._until = until
        self._clock = clock
        self._per_file_s = per_file_s
        self._began = clock()
        self._line: int | None = None
        self._line_began = self._began
        self.cut_lines: set[int] = set()
        """Offsets of lines of which not all was read."""
        self.gave_up_after_s: float | None = None
        self.all_over = False
        """Whether it was given up because the time for all logs was over."""

    def is_out(self, size: int) -> bool:
        """Whether the log took too long for what was read of it, in bytes."""
        spent = self._clock() - self._began
        if spent > self._per_file_s + PER_MEGABYTE_S * size / 1e6:
            self.gave_up_after_s = spent
        elif time.monotonic() > self._until:
            self.gave_up_after_s, self.all_over = spent, True
        return self.gave_up_after_s is not None

    def begin(self, line: int) -> None:
        """A hit in the line that begins at this offset is read next."""
        if line != self._line:
            self._line = line
            self._line_began = self._clock()

    def goes_on(self) -> bool:
        """Whether the line may be searched once more."""
        if self._clock() - self._line_began <= PER_LINE_S:
            return True
        assert self._line is not None
        self.cut_lines.add(self._line)
        return False
