# SPDX-License-Identifier: Apache-2.0
"""How this process ends, as far as it can know: its status, and the exception that was not caught.

Python passes neither to an exit handler. An uncaught exception is left in ``sys``. A status is seen in a SystemExit
that reaches the top (:mod:`system_exit`), and in ``os._exit``, which still does what it always did. A killed process
says nothing, which tells it apart.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from keepstep.base.safe_files import open_private
from keepstep.guard.ending import system_exit

INTERRUPTED = 130
INTERRUPTED_BY = "KeyboardInterrupt"
LONGEST_TEXT = 300


@dataclass(frozen=True)
class Ending:
    """How a process ends."""

    status: int = 0
    raised: str | None = None
    """The type of the exception that ended it."""
    place: str | None = None
    """The user's line that called ``sys.exit``, or raised SystemExit."""
    text: str | None = None
    """What was given to it, if that is no number."""

    @property
    def words(self) -> str:
        if self.raised == INTERRUPTED_BY:
            return "was interrupted (Ctrl-C)"
        where = f" in {self.place}" if self.place and self.status else ""
        return f"ended with {self.raised}" if self.raised else f"ended with status {self.status}{where}"


class Listener:
    """Sees the status the process ends with."""

    def __init__(self, leave: Callable[[Ending], None]) -> None:
        self._leave = leave
        self._raised: Ending | None = None
        """By a SystemExit that nothing caught."""

    def listen(self) -> None:
        """Watch SystemExit and ``os._exit`` from now on."""
        system_exit.hear(self.hear)
        self._hear_leaving_at_once()

    def _hear_leaving_at_once(self) -> None:
        real = os._exit

        @functools.wraps(real)
        def _exit(status: int) -> NoReturn:
            with contextlib.suppress(BaseException):
                self._leave(Ending(status_of(status)))
            real(status)

        _exit.__module__ = "os"  # where it is found when it is pickled
        os._exit = _exit

    def hear(self, given: Any, place: str | None, interrupted: bool) -> None:
        """A SystemExit has reached the top of the program."""
        text = given[:LONGEST_TEXT] if isinstance(given, str) else None
        status = status_of(given)
        self._raised = Ending(status, INTERRUPTED_BY if interrupted and status else None, place, text)

    def ending(self) -> Ending:
        """For an exit handler: how the process ends."""
        raised = uncaught()
        if raised is not None:
            return Ending(INTERRUPTED if raised == INTERRUPTED_BY else 1, raised)
        return self._raised or Ending()


def uncaught() -> str | None:
    """The type of the exception that reached the top of the program; unknown in an interactive session."""
    kind = getattr(sys, "last_type", None)
    if kind is None or sys.flags.interactive or hasattr(sys, "ps1") or "ipykernel" in sys.modules:
        return None
    return str(getattr(kind, "__name__", kind))


def status_of(given: Any) -> int:
    """The status that the system will see."""
    if given is None:
        return 0
    return given & 0xFF if isinstance(given, int) else 1


# --- The real exit status of the process, written by the C library on its way out.
#
# Python does not say: after an ``exit(3)`` in a native library, exit handlers see the same as after a success. glibc
# passes the status to functions registered with ``on_exit``. By then Python is gone, so the function is glibc's own
# ``putw``, which writes one number to a stream. Without glibc, nothing is written.
#
# The stream has a high descriptor. A program may close all its files (a daemon does), and the next file it opens
# gets the lowest free number: that must not be ours, or the status would be written into that file.

MOST = 1 << 16


class ExitStatus:
    """Asks glibc to write the status to ``path``. A forked child has the same stream: it must ``forget`` it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        libc = ctypes.CDLL(None)
        if not (hasattr(libc, "on_exit") and hasattr(libc, "putw") and hasattr(libc, "fdopen")):
            return
        handle = _high(open_private(path, os.O_WRONLY | os.O_EXCL))
        libc.fdopen.restype = ctypes.c_void_p
        libc.on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        stream = libc.fdopen(handle, b"wb")
        if not stream or libc.on_exit(ctypes.cast(libc.putw, ctypes.c_void_p), stream) != 0:
            os.close(handle)
            return
        self._handle = handle

    def forget(self) -> None:
        """In a forked child, whose end is not the rank's end."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _high(handle: int) -> int:
    """The same file under a descriptor that is handed out only when very many are open."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return fcntl.fcntl(
            handle, fcntl.F_DUPFD_CLOEXEC, (min(allowed, MOST) if allowed != resource.RLIM_INFINITY else MOST) // 2
        )
    finally:
        os.close(handle)
