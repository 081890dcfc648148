# SPDX-License-Identifier: Apache-2.0
"""The time of a dry run: says every few seconds where the script is, and ends the run while its answer can be given."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable

from keepstep.base.other_threads import frame_of
from keepstep.check.memory.dry_run.storage_log import StorageLog

TOLD_EVERY_S = 10.0


class Clock(threading.Thread):
    """``answer``: where it writes how far the script is, one line of JSON each time.

    ``end`` is called at ``until``, with where it is.
    """

    def __init__(self, answer: int, log: StorageLog, seconds: float) -> None:
        super().__init__(name="keepstep-clock", daemon=True)
        self._answer = answer
        self._log = log
        self._begun = time.monotonic()
        self._main = threading.main_thread().ident
        self.until = self._begun + seconds
        self.end: Callable[[str], None] = lambda place: None
        self.steps: Callable[[], int] = lambda: 0

    def left(self, seconds: float) -> None:
        """No more than so many seconds are left."""
        self.until = min(self.until, time.monotonic() + seconds)

    def run(self) -> None:
        told = self._begun
        while (now := time.monotonic()) < self.until:
            if now - told >= TOLD_EVERY_S:
                told = now
                news = {"after_s": now - self._begun, "place": self.place(), "steps": self.steps()}
                os.write(self._answer, json.dumps(news).encode() + b"\n")
            time.sleep(max(0.0, min(0.5, self.until - now)))
        self.end(self.place())

    def place(self) -> str:
        """The script's line that is being run, and the library that it waits for."""
        frame = frame_of(self._main or 0)
        inner = frame.f_globals.get("__name__", "").partition(".")[0] if frame is not None else ""
        line = self._log.place(frame)
        return f"{line} (in {inner})" if line and inner not in ("", "__main__") else line
