# SPDX-License-Identifier: Apache-2.0
"""Work in pieces that is done while the machine has nothing better to do, and done anyway where that never comes."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 1.0
"""A piece takes about 10 ms. The lowest priority gets a 500th of two cores where ten others want them."""
Result = TypeVar("Result")


class IdleWork:
    """One thread with the lowest priority. It may not raise it again, so what comes late the caller does itself."""

    def __init__(self) -> None:
        self._pieces: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.waits = True
        """Whether the caller can wait for it. It becomes false where something came late."""
        threading.Thread(target=self._run, name="keepstep-idle-work", daemon=True).start()

    def do(self, piece: Callable[[], Result]) -> Result:
        """Its result, or what it raises. It may be done twice."""
        if not self.waits:
            return piece()
        results: list[Result] = []
        done = threading.Event()

        def quietly() -> None:
            with contextlib.suppress(Exception):  # the caller does it again, and sees what it raises
                results.append(piece())
            done.set()

        self._pieces.put(quietly)
        self.waits = done.wait(PATIENCE_S)
        return results[0] if results else piece()

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # of this thread alone, on Linux
        while True:
            self._pieces.get()()
