# SPDX-License-Identifier: Apache-2.0
"""Whether this host has far more to do than it can. Then whatever must come in time comes late."""

from __future__ import annotations

import os
import time

MOST_PER_CORE = 4.0
"""Threads that want to run, over the last minute. Trainings that load their data themselves have one or two."""
LOOK_S = 2.0


class Crowd:
    """To be asked often: it looks now and then."""

    def __init__(self) -> None:
        self._looked = 0.0
        self._crowded = False

    def is_here(self) -> bool:
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked, self._crowded = now, _load() > MOST_PER_CORE * (os.cpu_count() or 1)
        return self._crowded


def _load() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0
