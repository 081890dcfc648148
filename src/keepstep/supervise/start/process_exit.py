# SPDX-License-Identifier: Apache-2.0
"""How a process ended, and waiting for that. Loads little: a companion starts beside ranks that use all cores."""

from __future__ import annotations

import os
import select
import signal

from keepstep.base.lazy_dataclass import dataclass

POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a process ended."""

    pid: int
    at: float
    code: int | None = None
    signal: str | None = None
    dumped: bool = False
    """The kernel wrote a core file, or handed it to a program."""

    @property
    def well(self) -> bool:
        return self.code == 0

    @property
    def status(self) -> int:
        """As a shell says it: the code, or 128 and the number of the signal."""
        if self.code is not None:
            return self.code
        return 128 + int(getattr(signal, self.signal or "", 0) or 0)

    @property
    def words(self) -> str:
        return f"exit code {self.code}" if self.code is not None else self.signal or "an unknown end"


class Doors:
    """Waits until a process ends, or for a while."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._open: dict[int, int] = {}
        self._blind = False

    def add(self, pid: int) -> None:
        try:
            handle = os.pidfd_open(pid)
        except (OSError, AttributeError):
            self._blind = True
            return
        self._open[pid] = handle
        self._poll.register(handle, select.POLLIN)

    def also(self, handle: int) -> None:
        """Wake up when this descriptor can be read, too."""
        self._poll.register(handle, select.POLLIN)

    @property
    def known(self) -> set[int]:
        return set(self._open)

    def drop(self, pid: int) -> None:
        handle = self._open.pop(pid, None)
        if handle is not None:
            self._poll.unregister(handle)
            os.close(handle)

    def wait(self, limit_s: float) -> None:
        if self._blind:
            limit_s = min(limit_s, POLL_S)
        self._poll.poll(max(0.0, limit_s * 1000))

    def close(self) -> None:
        for pid in list(self._open):
            self.drop(pid)
