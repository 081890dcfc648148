# SPDX-License-Identifier: Apache-2.0
"""Starts the process that watches this host's ranks from outside, where no supervisor does, and lets it look.

A rank that hangs cannot say why: another process must look at its stacks. There is one companion per host and folder;
later ranks find it there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from keepstep.base.safe_files import open_private
from keepstep.base.whole_numbers import whole
from keepstep.guard.ending.allow_tracing import let_look, needs_leave, supervisor_above

STARTS_S = 30.0
NOT_FOR_IT = ("KEEPSTEP", "KEEPSTEP_SUPERVISOR", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONFAULTHANDLER", "LD_PRELOAD")


class WatchedByCompanion:
    """Makes sure this rank is watched. Called once per second by the guard's own thread."""

    def __init__(self, folder: Path, env: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._env = env
        self._started = False
        self._let: int | None = None
        supervisor = env.get("KEEPSTEP_SUPERVISOR", "")
        self._supervisor = whole(supervisor)
        self._needs_leave = needs_leave()

    def moved(self, folder: Path) -> None:
        """The rank writes elsewhere from now on."""
        self._folder, self._started, self._let = folder, False, None

    def __call__(self) -> None:
        if self._supervisor is None and not self._started:
            self._started = True
            accompany(self._folder, self._env)
        if self._needs_leave:
            who = living(self._folder) if self._supervisor is None else supervisor_above(self._env)
            if who is not None and who != self._let:
                self._let = who
                let_look(who)


def accompany(folder: Path, env: Mapping[str, str] = os.environ) -> None:
    """Start the companion of this folder, unless there is one. Raises where that fails."""
    if not sys.platform.startswith("linux") or not sys.executable or living(folder) is not None:
        return
    import subprocess  # the companion imports this file, and must load little

    child = {name: value for name, value in env.items() if name not in NOT_FOR_IT}
    with contextlib.ExitStack() as stack:
        lock = open_private(pid_file(folder), os.O_RDWR)
        stack.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the companion inherits it
        except OSError:
            return  # another rank starts one right now: a second would only load its modules and end
        try:
            words = stack.enter_context(open("/proc/self/fd/2", "ab", buffering=0))
        except OSError:
            words = stack.enter_context(open(os.devnull, "ab", buffering=0))
        started = subprocess.Popen(
            [sys.executable, "-m", "keepstep.supervise.watch.companion", str(folder), str(lock)],
            pass_fds=(lock,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            env={**child, "KEEPSTEP": "off", "PYTHONPATH": package_path(child)},
            cwd="/",  # nothing in the training's folder may be imported
            start_new_session=True,
        )
    pausing, end = threading.Event(), time.monotonic() + STARTS_S
    while (
        started.poll() is None and time.monotonic() < end
    ):  # it forks and ends: the training gets no child it does not know about
        pausing.wait(0.02)  # time.sleep fails under libfaketime


def living(folder: Path) -> int | None:
    """The process id of the companion that watches this folder on this host."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(pid_file(folder).read_text())
        if b"keepstep.supervise.watch.companion" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return None


def pid_file(folder: Path) -> Path:
    """Where this host's companion writes its process number, and what it keeps locked."""
    return folder / f".companion-{_host()}"


def package_path(env: Mapping[str, str]) -> str:
    """A path on which the companion finds this very package, even where it is not installed."""
    here = str(Path(__file__).resolve().parents[2])
    known = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part and part not in (".", here)]
    return os.pathsep.join([here, *known]) if os.path.basename(here) != "site-packages" else os.pathsep.join(known)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())[:80]
