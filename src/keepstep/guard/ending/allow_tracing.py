# SPDX-License-Identifier: Apache-2.0
"""Lets the supervisor, or the companion, look at this process.

Under Yama (``kernel.yama.ptrace_scope`` 1, the default of most distributions) only ancestors may look at a process,
unless it names another. Stacks are read by a helper of the supervisor, which is not an ancestor. A forked child must
name it again.

The kernel takes a name for that process and all its descendants, until this process or that one ends. So under the
supervisor the other ranks of this host may look too; the companion has no descendants but its helpers. Other users stay
out either way. A number proves nothing (its process may have ended, or belong to another container), so a supervisor is
named only while it is an ancestor.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep.base.whole_numbers import whole

PR_SET_PTRACER = 0x59616D61
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
HIGHEST_PID = 1 << 22
"""Linux has no higher one. The largest number would mean "everybody"."""
MOST_ANCESTORS = 64


def let_supervisor_look(env: Mapping[str, str] = os.environ) -> None:
    """From now on, and in every forked child. Does nothing where no permission is needed."""
    if needs_leave() and _let_supervisor(env):
        os.register_at_fork(after_in_child=lambda: _let_supervisor(env))


def _let_supervisor(env: Mapping[str, str]) -> bool:
    supervisor = supervisor_above(env)
    return supervisor is not None and let_look(supervisor)


def supervisor_above(env: Mapping[str, str] = os.environ) -> int | None:
    """The process id of the supervisor that started this process; None if that is not so (any more)."""
    supervisor, pid = whole(env.get("KEEPSTEP_SUPERVISOR", "")), os.getppid()
    for _ in range(MOST_ANCESTORS):
        if pid == supervisor:
            return pid
        above = read_stat(pid) if pid > 1 else None
        if above is None:
            return None
        pid = above.parent
    return None


def let_look(pid: int) -> bool:
    """Let this process and its descendants look at us. False where no permission is needed, or nobody is meant."""
    if not 0 < pid <= HIGHEST_PID or not needs_leave():
        return False
    with contextlib.suppress(OSError, ValueError, ImportError):
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0) == 0)
    return False


def needs_leave() -> bool:
    """Whether Yama keeps others from looking at this process."""
    with contextlib.suppress(OSError, ValueError):
        return int(YAMA.read_text()) == 1
    return False
