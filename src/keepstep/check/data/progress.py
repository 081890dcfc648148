# SPDX-License-Identifier: Apache-2.0
"""How far the reading is, with an estimate: one line on a terminal, drawn over and over; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from keepstep.core.wording import duration, size

DRAW_EVERY_S = 0.5


class Progress:
    """Bytes and files done, of all there are."""

    def __init__(self, files: int, total_bytes: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty()
        self._files, self._total = files, total_bytes
        self._done_files = self._done = self._partial = 0
        self._began = self._drawn = time.monotonic()

    def read(self, count: int) -> None:
        """So many bytes of files that are not done yet."""
        self._partial += count
        self._draw()

    def done(self, size_bytes: int) -> None:
        """A file is done."""
        self._done_files += 1
        self._done += size_bytes
        self._partial = max(0, self._partial - size_bytes)
        self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if not self._shown or now - self._drawn < DRAW_EVERY_S:
            return
        self._drawn = now
        read, spent = self._done + self._partial, now - self._began
        rate = read / spent if spent else 0.0
        left = f", {duration((self._total - read) / rate)} left" if rate and self._total > read else ""
        text = (
            f"{self._done_files:,} of {self._files:,} files, {size(read)} of {size(self._total)}, {size(rate)}/s{left}"
        )
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
