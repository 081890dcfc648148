# SPDX-License-Identifier: Apache-2.0
"""Scripts name their functions after saving and evaluating: time spent in those is neither a hang nor a slow step."""

from __future__ import annotations

import re
import time
from typing import Protocol

from keepstep.guard.record.thread_stack import calls
from keepstep.signals.blackbox import Phase

STILL_S = 0.3
"""After this long without a step, look where the training is."""
STEPPING = (int(Phase.COMPUTE), int(Phase.INPUT))
NAMES = re.compile(r"(?i)(?P<saving>(^|_)(save|checkpoint|dump)|checkpoint)|(^|_)(eval|valid|infer|predict)")
FRAMEWORK_FILE = re.compile(
    r"[\\/](?:site|dist)-packages[\\/](?:torch|jax|jaxlib|flax|optax|tensorflow|keras|tf_keras)[\\/]"
)
"""Their own functions use such names for other things."""


class Pausing(Protocol):
    """Where the training is, and the way into a pause."""

    @property
    def steps(self) -> int: ...
    @property
    def phase_now(self) -> int: ...
    @property
    def trains_in_thread(self) -> int: ...

    def pause(self, phase: int) -> None: ...


class Pauses:
    """Called by the guard's own thread; looks once at each standstill."""

    period_s = 0.2
    part = "pauses"

    def __init__(self, session: Pausing) -> None:
        self._session = session
        self._steps = 0
        self._since = 0.0
        self._looked = True

    def __call__(self) -> None:
        session, now = self._session, time.monotonic()
        if session.steps != self._steps:
            self._steps, self._since, self._looked = session.steps, now, False
        elif not self._looked and now - self._since >= STILL_S:
            self._looked = True
            enter_pause(session, session.trains_in_thread)


def enter_pause(session: Pausing, thread: int) -> None:
    """Enter the phase that the names of the training's functions suggest. The next step leaves it."""
    if session.phase_now not in STEPPING or not session.steps:
        return
    for file, _, function in calls(thread):
        if (found := NAMES.search(function)) is not None and not FRAMEWORK_FILE.search(file):
            session.pause(int(Phase.CHECKPOINT if found["saving"] else Phase.EVALUATION))
            break
