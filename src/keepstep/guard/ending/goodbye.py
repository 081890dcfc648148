# SPDX-License-Identifier: Apache-2.0
"""How this process ends, as far as it can know: its status, and the exception that was not caught.

Python passes neither to an exit handler. An uncaught exception is left in ``sys``; a status is seen where it is
given, in ``sys.exit`` and ``os._exit``, which still do what they always did. A killed process says nothing, which
tells it apart.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

INTERRUPTED = 130


@dataclass(frozen=True)
class Ending:
    """How a process ends."""

    status: int = 0
    raised: str | None = None
    """The type of the exception that ended it."""

    @property
    def words(self) -> str:
        if self.raised == "KeyboardInterrupt":
            return "was interrupted (Ctrl-C)"
        return f"ended with {self.raised}" if self.raised else f"ended with status {self.status}"


class Listener:
    """Sees the status the process ends with. ``doing`` says how far it is: a program that goes on has not ended."""

    def __init__(self, doing: Callable[[], object], leave: Callable[[Ending], None]) -> None:
        self._doing, self._leave = doing, leave
        self._asked: tuple[int, object] | None = None

    def listen(self) -> None:
        """Watch ``sys.exit`` and ``os._exit`` from now on."""
        self._hear_exit()
        self._hear_leaving_at_once()

    def _hear_exit(self) -> None:
        real = sys.exit

        @functools.wraps(real)
        def exit(status: Any = None, /) -> NoReturn:
            if threading.current_thread() is threading.main_thread():
                self._asked = status_of(status), self._doing()
            real(status)

        sys.exit = exit

    def _hear_leaving_at_once(self) -> None:
        real = os._exit

        @functools.wraps(real)
        def _exit(status: int) -> NoReturn:
            with contextlib.suppress(BaseException):
                self._leave(Ending(status_of(status)))
            real(status)

        os._exit = _exit

    def ending(self) -> Ending:
        """For an exit handler: how the process ends."""
        raised = uncaught()
        if raised is not None:
            return Ending(INTERRUPTED if raised == "KeyboardInterrupt" else 1, raised)
        if self._asked is not None and self._asked[1] == self._doing():
            return Ending(self._asked[0])
        return Ending()


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
