# SPDX-License-Identifier: Apache-2.0
"""How this process learns that it will be ended: a signal, or Slurm's time limit.

Slurm, Kubernetes, torchrun and `keepstep run` (which also hears Ray) all send SIGTERM. A handler in Python runs only
between two of its instructions, so a signal during a long compilation is seen through a pipe, by the guard's thread.
Handlers that were there before are called as well, also native ones: those of JAX's and TensorFlow's preemption
services.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from keepstep.guard.same_step.agreed_call import Reason

GRACE = "KEEPSTEP_GRACE"
"""Seconds from SIGTERM to SIGKILL; `keepstep run` sets it."""
USUAL_GRACE_S = {"SLURM_JOB_ID": 30.0, "KUBERNETES_SERVICE_HOST": 30.0}
"""What Slurm (KillWait) and Kubernetes grant unless someone has set it otherwise."""
LIMIT = "SLURM_JOB_END_TIME"
LEAST_LEAD_S = 60.0
"""Before a time limit: at least this long, and twice what a step and a save take."""
AGAIN_S = 1.0
"""How often it is looked whether another handler has taken the place of ours."""
_SIGINFO, _FLAGS_AT = 4, 136
"""SA_SIGINFO, and where Linux keeps the flags in ``struct sigaction``."""


class StopNotices:
    """``listen`` from the main thread, now and then; ``new`` from any."""

    def __init__(self, rank: Callable[[], int | None], env: Mapping[str, str] = os.environ) -> None:
        self._rank, self._env = rank, env
        self._heard: list[int] = []
        self._pid = os.getpid()
        self._before: dict[int, Any] = {}
        self._native: dict[int, int] = {}
        """Our handlers, as the C library sees them."""
        self._pipe: tuple[int, int] | None = None
        self._due = 0.0
        self._told = False
        self._numbers = [signal.SIGTERM, *([signal.SIGUSR1] if "SLURM_JOB_ID" in env else [])]

    def listen(self) -> None:
        """Hear the signals from now on, in addition to those who hear them already."""
        now = time.monotonic()
        if now < self._due or threading.current_thread() is not threading.main_thread():
            return
        self._due = now + AGAIN_S
        if self._pipe is None:
            self._open_pipe()
            os.register_at_fork(after_in_child=self.give_back)
        for number in self._numbers:
            native = _native_handler(number)
            if number not in self._native or self._native[number] != native[0] or not _is_ours(number):
                self._take(number, native)

    def new(self, needs_s: float) -> Reason | None:
        """Why this process will be ended, once that is known. ``needs_s``: what a step and a save take."""
        if self._told:
            return None
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                self._heard += [number for number in os.read(self._pipe[0], 512) if number in self._numbers]
        rank, until = self._rank() or 0, _number(self._env.get(LIMIT))
        left_s = until - time.time() if until is not None else None
        if self._heard:
            self._told = True
            return Reason(1, signal.Signals(self._heard[0]).name, rank, grace_s(self._env))
        if left_s is not None and 0 < left_s < max(LEAST_LEAD_S, 2 * needs_s):
            self._told = True
            return Reason(1, "Slurm's time limit", rank, left_s)
        return None

    def _take(self, number: int, native: tuple[int, int]) -> None:
        before = signal.getsignal(number)
        if number != signal.SIGTERM and before is not signal.SIG_DFL:
            return  # the script has a use of its own for it
        natives: list[Callable[[int], None]] = []

        def keepstep_heard(number: int, frame: FrameType | None) -> None:
            if os.getpid() != self._pid:  # a child that was forked a moment ago
                self.give_back()
                os.kill(os.getpid(), number)
                return
            self._heard.append(number)
            for call in natives:
                call(number)
            if callable(before):
                before(number, frame)

        self._before.setdefault(number, before)
        signal.signal(number, keepstep_heard)
        self._native[number] = _native_handler(number)[0]
        if native[0] > 1 and native[0] != self._native[number] and not native[1] & _SIGINFO:  # not that of Python
            natives.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(native[0]))

    def _open_pipe(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if before != -1:  # an event loop has one: it is seen when Python runs again
            signal.set_wakeup_fd(before)
        self._pipe = reading, writing

    def give_back(self) -> None:
        """SIGTERM does again what it did before us; also in a forked child (a loader's worker)."""
        with contextlib.suppress(Exception):
            signal.set_wakeup_fd(-1)
            for number, before in self._before.items():
                if before is not None and _is_ours(number):
                    signal.signal(number, before)


def grace_s(env: Mapping[str, str]) -> float | None:
    """How long a process has after SIGTERM, as far as that is known."""
    given = _number(env.get(GRACE))
    return given if given is not None else next((s for name, s in USUAL_GRACE_S.items() if name in env), None)


def _is_ours(number: int) -> bool:
    return getattr(signal.getsignal(number), "__name__", "") == "keepstep_heard"


def _native_handler(number: int) -> tuple[int, int]:
    """The address of the handler that the kernel knows, and its flags."""
    asked = ctypes.create_string_buffer(512)
    if sys.platform != "linux" or ctypes.CDLL(None).sigaction(number, None, asked) != 0:
        return 0, 0
    held = asked.raw
    return int.from_bytes(held[:8], "little"), int.from_bytes(held[_FLAGS_AT : _FLAGS_AT + 4], "little")


def _number(text: str | None) -> float | None:
    with contextlib.suppress(ValueError):
        return float(text) if text else None
    return None
