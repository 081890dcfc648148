# SPDX-License-Identifier: Apache-2.0
"""How long one verb may take for all of its work together: reading, matching and redacting."""

from __future__ import annotations

import time

ALL_S = 120.0
PER_MEGABYTE_S = 1.0
"""More than the slowest way to read a log takes, on a slow machine."""


class TimeBudget:
    """So many seconds, and more for what is on the disk. What a file only seems to hold (holes) allows nothing."""

    def __init__(self, seconds: float = ALL_S) -> None:
        self.until = time.monotonic() + seconds

    def allow_for(self, stored: int) -> None:
        """So many bytes on the disk are to be read."""
        self.until += PER_MEGABYTE_S * stored / 1e6

    @property
    def is_out(self) -> bool:
        return time.monotonic() > self.until
