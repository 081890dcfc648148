# SPDX-License-Identifier: Apache-2.0
"""Pauses of a training: time spent on saving and evaluating is neither a hang nor a slow step.

Functions of libraries that save are hooked; scripts name their own functions after what they do.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.record.thread_stack import calls
from keepstep.signals.blackbox import BoxPhase

if TYPE_CHECKING:
    from keepstep.guard.protocols import CountsSteps, Phases

STILL_S = 0.3
"""After this long without a step, look where the training is."""
STEPPING = (int(BoxPhase.COMPUTE), int(BoxPhase.INPUT))
NAMES = re.compile(r"(?i)(?P<saving>(^|_)(save|checkpoint|dump)|checkpoint)|(^|_)(eval|valid|infer|predict)")
FRAMEWORK_FILE = re.compile(
    r"[\\/](?:site|dist)-packages[\\/](?:torch|jax|jaxlib|flax|optax|tensorflow|keras|tf_keras)[\\/]"
)
"""Their own functions use such names for other things."""


class Pauses:
    """Called by the guard's own thread; looks once at each standstill."""

    period_s = 0.2
    part = "pauses"

    def __init__(self, session: CountsSteps) -> None:
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


def enter_pause(session: CountsSteps, thread: int) -> None:
    """Enter the phase that the names of the training's functions suggest. The next step leaves it."""
    if session.phase_now not in STEPPING or not session.steps:
        return
    for file, _, function in calls(thread):
        if (found := NAMES.search(function)) is not None and not FRAMEWORK_FILE.search(file):
            session.pause(int(BoxPhase.CHECKPOINT if found["saving"] else BoxPhase.EVALUATION))
            break


def in_phase(
    session: Phases, phase: int, is_training: Callable[[], bool] = lambda: True
) -> Callable[[Any], Callable[..., Any]]:
    """Makes a function a phase of the training, where the training calls it; nothing else about it changes."""

    def make(original: Any) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_training():
                return original(*args, **kwargs)
            before = session.phase(phase)
            try:
                return original(*args, **kwargs)
            finally:
                session.phase(before)

        return call

    return make
