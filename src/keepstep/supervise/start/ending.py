# SPDX-License-Identifier: Apache-2.0
"""How ranks end: noticing it, making them, and leaving nothing behind."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep.base.proc_stat import read_stat
from keepstep.supervise.start import control_group, reaper
from keepstep.supervise.start.priority import ordinarily
from keepstep.supervise.start.process_exit import Doors, Exit

if TYPE_CHECKING:
    from keepstep.supervise.start.spares import Launch

LAST_S = 1.0
LITTLE_S = 0.015
"""Processor time that the guard's own thread uses now and then."""


def ended(process: subprocess.Popen[bytes]) -> Exit | None:
    """How the process ended; None while it lives."""
    dumped = False
    with contextlib.suppress(OSError, AttributeError):
        info = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        dumped = info is not None and info.si_code == os.CLD_DUMPED
    code = process.poll()
    if code is None:
        return None
    if code >= 0:
        return Exit(pid=process.pid, at=time.time(), code=code)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"SIG{-code}"
    return Exit(pid=process.pid, at=time.time(), signal=name, dumped=dumped)


class Reaper:
    """The process that ends all that is left of the run if this one is killed. It knows every session we start."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.sessions: dict[int, int] = {}
        self._folders: list[str] = []
        self._lease, self._shared = _lease_end()
        self._process = self._begin()
        self.group = control_group.make()
        if self.group is not None:
            self._afterwards(f"group {self.group}")

    def _begin(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", str(Path(reaper.__file__)), self.token]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            pass_fds=() if self._shared is None else (self._shared,),
        )
        if self._shared is not None:
            self._tell(f"lease in {self._shared}\n", process)
        return process

    def start(self, launch: Launch, out: int, err: int, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        """Start a process of the run. If there are control groups, it cannot leave ours."""
        from keepstep.supervise.start.launch import start  # the companion starts nothing and does without it

        with control_group.inside(self.group), ordinarily():
            process = start(launch, out, err, pass_fds)
        self.add(process.pid)
        return process

    def add(self, pid: int) -> None:
        entry = read_stat(pid)
        if entry is not None:
            self.sessions[pid] = entry.started
            self._tell(f"+{pid}\n")

    def keep(self, folder: Path) -> None:
        """Have the black boxes that this folder links to moved into it."""
        self._afterwards(f"keep {folder}")

    def remove(self, folder: str) -> None:
        """Have this folder removed at the end."""
        self._afterwards(f"remove {folder}")

    def _afterwards(self, word: str) -> None:
        if "\n" not in word:
            self._folders.append(word)
            self._tell(f"{word}\n")

    def see_to_it(self) -> None:
        """Start a new reaper if the old one was killed."""
        if self._process.poll() is not None:
            self._process = self._begin()
            self._tell("".join(f"{word}\n" for word in (*(f"+{pid}" for pid in self.sessions), *self._folders)))

    def lease(self, seconds: float | None) -> None:
        """How long from now the ranks may run without another word; None: as long as we live.

        Costs no system call while it is only renewed: the reaper looks at it when the lease that it knows is over.
        """
        until = 0 if seconds is None else reaper.clock() + int(seconds * 1e9)
        before = self._lease.read()
        self._lease.write(until)
        if self._shared is None:
            self._tell(f"lease {until}\n")
        elif until and not before:
            self._tell("lease on\n")

    def bye(self) -> None:
        self._tell("bye\n")
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        if self.group is not None:
            reaper.remove_group(self.group)
        if self._shared is not None:
            os.close(self._shared)
            self._shared = None

    def kill_all(self, *, spare: Collection[int] = (), patience_s: float) -> bool:
        """SIGKILL to all that the run started; False if some would not end."""
        return reaper.kill_all(self.token, self.sessions, group=self.group, spare=spare, patience_s=patience_s)

    def _tell(self, words: str, process: subprocess.Popen[bytes] | None = None) -> None:
        stdin = (process or self._process).stdin
        with contextlib.suppress(OSError, ValueError):
            assert stdin is not None
            stdin.write(words.encode())
            stdin.flush()


def _lease_end() -> tuple[reaper.LeaseEnd, int | None]:
    """Where the end of a lease is kept, and the descriptor by which a reaper shares it, if the system allows that."""
    try:
        handle = os.memfd_create("keepstep-lease", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return reaper.LeaseEnd(None), None
    os.ftruncate(handle, mmap.PAGESIZE)
    return reaper.LeaseEnd(handle), handle


def end(
    processes: Collection[subprocess.Popen[bytes]],
    reaping: Reaper,
    *,
    grace_s: float,
    idle_s: float | None = None,
    saving: Callable[[], bool] = lambda: False,
    saving_s: float = 0.0,
    spare: Collection[int] = (),
    hurry: Callable[[], bool] = lambda: False,
    first: int = signal.SIGTERM,
) -> bool:
    """SIGTERM (``first``) to every living rank and all that it started, a grace period, then SIGKILL to what is left.

    ``idle_s``: the grace period ends after this long without any work (a rank that waits for a dead peer, or whose
    framework swallows the signal, does nothing with it). ``saving``: a rank is writing a checkpoint, and may take
    ``saving_s`` for it. ``spare``: processes to leave alone. ``hurry``: the user does not want to wait. Returns False
    if some would not end.
    """
    for process in processes:
        if process.poll() is None:
            _signal_group(process.pid, first)
            _signal_group(process.pid, signal.SIGCONT)  # a stopped one cannot hear it
    until, latest = time.monotonic() + grace_s, time.monotonic() + saving_s
    pause = 0.002
    work, worked = -1.0, time.monotonic()
    while (
        (time.monotonic() < until or (time.monotonic() < latest and saving()))
        and not hurry()
        and any(process.poll() is None for process in processes)
    ):
        if idle_s is not None and not abs((done := _work(processes)) - work) <= LITTLE_S:
            work, worked = done, time.monotonic()
        if idle_s is not None and time.monotonic() - worked > idle_s:
            break
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    gone = reaping.kill_all(spare=spare, patience_s=10.0)
    for process in processes:
        _wait_for(process)
    return gone


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    """Until all its threads are gone, which takes a while if it had much memory. (Popen's wait polls every 50 ms.)"""
    if process.poll() is None:
        doors = Doors()
        doors.add(process.pid)
        doors.wait(LAST_S)
        doors.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=LAST_S)


def _work(processes: Collection[subprocess.Popen[bytes]]) -> float:
    """Processor seconds of those that live; not a number while one of them waits for a disk."""
    found = [entry for process in processes if (entry := read_stat(process.pid)) is not None and entry.lives]
    return float("nan") if any(entry.state == "D" for entry in found) else sum(entry.cpu_s for entry in found)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, number)
