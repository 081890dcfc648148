# SPDX-License-Identifier: Apache-2.0
"""How far the check is, with an estimate: one line on a terminal, drawn over and over; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from keepstep.base.wording import count, duration, size

DRAW_EVERY_S = 0.5
FILE_COSTS = 100_000
"""Opening a file takes as long as reading this many bytes of it, about."""
MANY_SMALL = 50_000
"""Files that are smaller on average are counted by the file, not by the byte."""


class ReadProgress:
    """First the files that were found, then how much of them is done."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty()
        self._files = self._total = 0
        self._done_files = self._done = self._partial = 0
        self._old_files = self._old = 0
        self._began = self._drawn = time.monotonic()

    def found(self, files: int) -> None:
        """So many files were found until now."""
        self._draw(f"{count(files, 'file')} found")

    def begin(self, files: int, total_bytes: int) -> None:
        """All files are found, and reading begins."""
        self._files, self._total, self._began = files, total_bytes, time.monotonic()

    def read(self, count: int) -> None:
        """So many bytes of files that are not done yet."""
        self._partial += count
        self._draw()

    def done(self, size_bytes: int, *, unchanged: bool = False) -> None:
        """A file is done, or did not have to be read again."""
        self._done_files += 1
        self._done += size_bytes
        if unchanged:
            self._old_files += 1
            self._old += size_bytes
        else:
            self._partial = max(0, self._partial - size_bytes)
        self._draw()

    def _draw(self, text: str = "") -> None:
        now = time.monotonic()
        if self._shown and now - self._drawn >= DRAW_EVERY_S:
            self._drawn = now
            self._stream.write(f"\r\x1b[K{text or self._reading(now - self._began)}")
            self._stream.flush()

    def _reading(self, spent_s: float) -> str:
        """What was unchanged took no time, so it says nothing about the rest."""
        read = min(self._done + self._partial, self._total)
        files, fresh = self._done_files - self._old_files, read - self._old
        worked = files * FILE_COSTS + fresh
        ahead = (self._files - self._done_files) * FILE_COSTS + self._total - read
        left = f", {duration(ahead * spent_s / worked)} left" if worked >= FILE_COSTS and ahead > 0 else ""
        speed = max(spent_s, 0.001)
        rate = f"{size(fresh / speed)}/s"
        if self._total < self._files * MANY_SMALL:
            rate = f"{round(files / speed):,} files/s"
        return f"{self._done_files:,} of {self._files:,} files, {size(read)} of {size(self._total)}, {rate}{left}"

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
