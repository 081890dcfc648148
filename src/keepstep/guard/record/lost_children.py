# SPDX-License-Identifier: Apache-2.0
"""Notes children of this rank that ended without anybody asking for it: a feeder that died leaves its queue empty."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from keepstep.base.proc_stat import MOST_THREADS, read_stat

if TYPE_CHECKING:
    from keepstep.guard.protocols import Speaks

MOST = 20
"""Notes of one rank."""
LONGEST = 120


class LostChildren:
    """Called by the guard's own thread."""

    period_s = 2.0
    part = "children"

    def __init__(self, session: Speaks) -> None:
        self._session = session
        self._commands: dict[int, str] = {}
        self._ended: set[int] = set()
        """Those that had ended when we last looked: their parent may be about to ask."""
        self._told = 0

    def __call__(self) -> None:
        if self._told >= MOST:
            return
        ended: set[int] = set()
        here = _children()
        for pid in here:
            stat = read_stat(pid)
            if stat is None:
                continue
            if stat.state != "Z":
                self._commands[pid] = self._commands.get(pid) or _command(pid)
                continue
            ended.add(pid)
            if pid in self._ended and pid in self._commands:
                self._tell(pid, self._commands.pop(pid), stat.wait_status)
        self._ended = ended
        self._commands = {pid: command for pid, command in self._commands.items() if pid in here}

    def _tell(self, pid: int, command: str, status: int | None) -> None:
        self._told += 1
        code = status >> 8 if status is not None and not status & 0x7F else None
        name = None
        with contextlib.suppress(ValueError):
            name = signal.Signals(status & 0x7F).name if status is not None and status & 0x7F else None
        how = f" with {name}" if name else f" with status {code}" if code is not None else ""
        fields = {"pid": pid, "command": command, "code": code, "signal": name}
        self._session.note("ChildLost", fields, f"its child {command} (pid {pid}) ended{how}, and nobody asked for it")


def _children() -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for task in os.listdir("/proc/self/task")[:MOST_THREADS]:
            with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", "rb") as stream:
                found += map(int, stream.read().split())
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
        return stream.read(1024).replace(b"\0", b" ").decode(errors="replace").strip()[:LONGEST]
    return ""
