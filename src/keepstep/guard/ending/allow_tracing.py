# SPDX-License-Identifier: Apache-2.0
"""Lets the supervisor, or the companion, look at this process.

Under Yama (``kernel.yama.ptrace_scope`` 1, the default of most distributions) only ancestors may look at a process,
unless it names another. Stacks are read by a helper of the supervisor, which is not an ancestor. A forked child must
name it again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

PR_SET_PTRACER = 0x59616D61
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def let_supervisor_look(env: Mapping[str, str] = os.environ) -> None:
    """From now on, and in every forked child. Does nothing where no permission is needed."""
    supervisor = env.get("KEEPSTEP_SUPERVISOR", "")
    if supervisor.isdecimal() and let_look(int(supervisor)):
        os.register_at_fork(after_in_child=lambda: let_look(int(supervisor)))


def let_look(pid: int) -> bool:
    """Let this process and its children look at us. False where no permission is needed."""
    if not needs_leave():
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
