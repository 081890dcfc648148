# SPDX-License-Identifier: Apache-2.0
"""Ends a run whose supervisor and reaper were both killed: only its ranks are left to do it.

The reaper ends all ranks within moments of the supervisor's end. A rank that is still alive seconds later knows that
there is no reaper, and starts one. Where the supervisor is not visible (another host, another container) no
conclusion is drawn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep.base.whole_numbers import whole

REAPER_S = 3.0
_REAPER = Path(__file__).resolve().parents[2] / "supervise" / "start" / "reaper.py"


class Orphan:
    """Called once per second by the guard's own thread."""

    period_s = 1.0
    part = "supervisor's end"

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._supervisor = whole(env.get("KEEPSTEP_SUPERVISOR", ""))
        self._token = env.get("KEEPSTEP_RUN", "")
        self._folder = env.get("KEEPSTEP_DIR", "")
        self._began = _alive_since(self._supervisor)
        self._alone_since: float | None = None

    def __call__(self) -> None:
        if self._began is None or not self._token or _alive_since(self._supervisor) == self._began:
            return
        now = time.monotonic()
        if self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > REAPER_S:
            self._began = None  # once
            self._end_all()

    def _end_all(self) -> None:
        """A reaper that reads only the end of its input kills every process with the run's token, this one too."""
        child = subprocess.Popen(
            [sys.executable, "-I", str(_REAPER), self._token],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        assert child.stdin is not None
        with child.stdin as words:
            if self._folder and "\n" not in self._folder:
                words.write(f"keep {self._folder}\n".encode())


def _alive_since(pid: int | None) -> int | None:
    """When a living process was started, in kernel ticks: tells it from a later one with the same id."""
    found = read_stat(pid) if pid is not None else None
    return found.started if found is not None and found.lives else None
