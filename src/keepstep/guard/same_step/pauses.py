# SPDX-License-Identifier: Apache-2.0
"""A wait for other ranks, in pauses: short ones at first, because most answers come at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

FIRST_S, LONGEST_S = 0.0005, 0.005
TELL_S = 1.0


def pauses(wait_s: float) -> Iterator[bool]:
    """Again and again until the time is over, at least once; True about once in a second."""
    began, pause, pausing, tell = time.monotonic(), FIRST_S, threading.Event(), TELL_S
    while True:
        passed = time.monotonic() - began
        if is_long := passed > tell:
            tell = passed + TELL_S
        yield is_long
        if passed > wait_s:
            return
        pausing.wait(pause)  # time.sleep fails under libfaketime
        pause = min(pause * 1.5, LONGEST_S)
