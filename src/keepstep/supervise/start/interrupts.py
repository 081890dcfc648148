# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and the end of the terminal: noted, and acted upon by the loop that watches the ranks."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


class Interrupts:
    """What the user or a scheduler asked for during the run."""

    def __init__(
        self, say: Callable[[str], None], grace_s: float, *, program: str | None = None, preempted: int | None = None
    ) -> None:
        """``program``: the user's own, which gets Ctrl-C as the terminal would have sent it.

        ``preempted``: the status after SIGTERM, if the engine that sent it expects another one than 143.
        """
        self.signal: int | None = None
        self.again = False
        self._say = say
        self._grace_s = grace_s
        self._program = program
        self._preempted = preempted

    @property
    def first(self) -> int:
        """The first signal that the ranks get."""
        return signal.SIGINT if self._program is not None and self.signal == signal.SIGINT else signal.SIGTERM

    @property
    def status(self) -> int:
        if self.signal == signal.SIGTERM and self._preempted is not None:
            return self._preempted
        return 128 + (self.signal or signal.SIGINT)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take note of the signals; those that are ignored (nohup) stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [
            n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def note(self, number: int | None) -> None:
        """Another node got a signal: the run is one, and so is its end."""
        if self.signal is None:
            self.signal = number if number is not None else signal.SIGTERM

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            self.again = True
            return
        self.signal = number
        how = f"{signal.Signals(self.first).name}, {self._grace_s:.0f} s of grace, then SIGKILL"
        again = "; press Ctrl-C again to kill at once" if number == signal.SIGINT else ""
        who = self._program if self._program is not None else "the ranks"
        words = f"{signal.Signals(number).name}: stopping {who} ({how}{again})"
        # a handler must not wait for a lock that its own thread may hold
        threading.Thread(target=self._say, args=(words,), daemon=True).start()
