# SPDX-License-Identifier: Apache-2.0
"""The guard's own thread: writes the notes, calls what must be called now and then, and measures its own cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from keepstep.signals.blackbox import RecordKind

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from keepstep.guard.box_writer import Write

TICK_S = 0.2
BEAT_S, LESS_OFTEN = 1.0, 20.0
"""Between two beats; in a standstill, this fraction of its length: a hang must not push its own history out."""
STILL_S = 0.3
"""A step that takes longer than this is written down in full."""
LAST_TASK_S = 5.0
"""When the process ends, it waits this long for the thread's current task."""
SETTLED_S = 30.0
"""What is imported and set up at the start is not counted against the share."""
MOST_SHARE = 0.002
"""The share of the time that the thread may use; beyond it, every task is called half as often."""
_BEAT = int(RecordKind.BEAT)


class Beating(Protocol):
    """What the guard's thread looks at and does by itself."""

    @property
    def steps(self) -> int: ...
    @property
    def phase_now(self) -> int: ...
    @property
    def lean(self) -> bool: ...
    @property
    def write(self) -> Write: ...

    def part(self, name: str) -> AbstractContextManager[None]: ...
    def is_off(self, name: str) -> bool: ...
    def uncovered(self, part: str, why: str) -> None: ...
    def catch_up(self) -> None: ...
    def flush(self) -> None: ...


@dataclass
class _Repeated:
    period: float
    part: str
    call: Callable[[], None]
    due: float = 0.0


class Pulse:
    """A daemon thread that wakes five times per second and does little."""

    def __init__(self, session: Beating) -> None:
        self._session = session
        self._tasks: list[_Repeated] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.used_ns = 0
        self._settled: tuple[float, int] | None = None
        """When everything was set up, and the time used by then."""
        self.slowed = 1

    def every(self, period: float, part: str, call: Callable[[], None]) -> None:
        """Call ``call`` about every ``period`` seconds, until it fails."""
        self._tasks.append(_Repeated(period, part, call))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="keepstep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, and wait for it: if Python ends it inside a framework, the process aborts."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LAST_TASK_S)

    def _run(self) -> None:
        session, next_flush, next_beat = self._session, 0.0, 0.0
        began = since = time.monotonic()
        at = (session.steps, session.phase_now)
        while not self._over.wait(TICK_S):
            now, used = time.monotonic(), time.thread_time_ns()
            for task in self._tasks:
                if now >= task.due and not session.is_off(task.part):
                    task.due = now + task.period * self.slowed
                    with session.part(task.part):
                        task.call()
            if (doing := (session.steps, session.phase_now)) != at:
                at, since, next_beat = doing, now, min(next_beat, now + BEAT_S)
            elif session.lean and now - since > STILL_S:
                with session.part("catching up"):
                    session.catch_up()
            if now >= next_flush:
                next_flush = now + BEAT_S
                with session.part("notes"):
                    session.flush()
            if now >= next_beat:
                next_beat = now + max(BEAT_S, (now - since) / LESS_OFTEN)
                session.write(_BEAT, self.used_ns)
            self.used_ns += time.thread_time_ns() - used
            self._keep_cheap(now - began)

    def _keep_cheap(self, passed: float) -> None:
        if self._settled is None:
            self._settled = (passed, self.used_ns) if passed > SETTLED_S else None
            return
        lasted, used = (passed - self._settled[0]) * 1e9, self.used_ns - self._settled[1]
        if lasted > SETTLED_S * 1e9 and used > lasted * MOST_SHARE * self.slowed and self.slowed < 32:
            self.slowed *= 2
            share = used / lasted
            self._session.uncovered(
                "frequent looks", f"the guard's thread had used {share:.1%} of the time, so it looks less often"
            )
