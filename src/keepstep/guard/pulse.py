# SPDX-License-Identifier: Apache-2.0
"""The guard's own thread: writes the notes, asks what is to be asked now and then, and keeps count of what that costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keepstep.core.blackbox import Kind

if TYPE_CHECKING:
    from keepstep.guard.session import Session

TICK_S = 0.2
BEAT_S = 1.0
SETTLED_S = 30.0
"""What is imported and set up at the start is not counted against the share."""
MOST_SHARE = 0.002
"""Of the time that passes; beyond it everything is asked half as often."""
_BEAT = int(Kind.BEAT)


@dataclass
class _Task:
    period: float
    part: str
    call: Callable[[], None]
    due: float = 0.0


class Pulse:
    """A daemon thread that wakes five times a second and does little."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: list[_Task] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.used_ns = 0
        self.slowed = 1

    def every(self, period: float, part: str, call: Callable[[], None]) -> None:
        """Call ``call`` about every ``period`` seconds, until it fails."""
        self._tasks.append(_Task(period, part, call))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="keepstep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, and wait a moment for it."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        session, next_beat, began = self._session, 0.0, time.monotonic()
        while not self._over.wait(TICK_S):
            now, used = time.monotonic(), time.thread_time_ns()
            for task in self._tasks:
                if now >= task.due and not session.is_off(task.part):
                    task.due = now + task.period * self.slowed
                    with session.part(task.part):
                        task.call()
            if now >= next_beat:
                next_beat = now + BEAT_S
                with session.part("notes"):
                    session.flush()
                session.write(_BEAT, self.used_ns)
            self.used_ns += time.thread_time_ns() - used
            self._keep_cheap(now - began)

    def _keep_cheap(self, passed: float) -> None:
        if passed > SETTLED_S and self.used_ns > passed * 1e9 * MOST_SHARE * self.slowed and self.slowed < 32:
            self.slowed *= 2
            share = self.used_ns / (passed * 1e9)
            self._session.uncovered("frequent looks", f"the guard's thread had used {share:.2%} of the time, so it looks less often")
