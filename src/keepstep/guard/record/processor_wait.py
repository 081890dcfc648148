# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts for the training's thread: how long it ran, and how long it waited for a processor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from keepstep.base.proc_stat import read_stat
from keepstep.signals.blackbox import RecordKind

if TYPE_CHECKING:
    from keepstep.guard.box_writer import Write

THREADS = Path("/proc/self/task")
_HELD = int(RecordKind.HELD)


class Trains(Protocol):
    """Which thread trains, and where records go."""

    trainer: int

    @property
    def steps(self) -> int: ...
    @property
    def write(self) -> Write: ...

    def uncovered(self, part: str, why: str) -> None: ...


class Held:
    """Called by the guard's own thread; one small read."""

    period_s = 0.5
    part = "processor time"

    def __init__(self, session: Trains) -> None:
        self._session = session
        self._steps = 0

    def __call__(self) -> None:
        session = self._session
        if not session.trainer or session.steps == self._steps:
            return
        self._steps = session.steps
        thread = THREADS / str(session.trainer)
        try:
            ran, waited, _ = (thread / "schedstat").read_text().split()
        except OSError:
            if thread.exists():
                session.uncovered(self.part, "the kernel does not count it")
            else:
                session.trainer = 0  # that thread has ended: the next step shows which one trains now
            return
        session.write(_HELD | int(crowding() * 100) << 32, int(waited), int(ran))


def crowding() -> float:
    """How many processes compete for each core of this host, over the last minute."""
    try:
        return min(os.getloadavg()[0] / (os.cpu_count() or 1), 1e6)
    except OSError:
        return 0.0


def is_ready(thread: int) -> bool:
    """Whether a thread of this process runs or waits for a processor; False while it sleeps."""
    found = read_stat(thread=thread)
    return found is not None and found.state == "R"
