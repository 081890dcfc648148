# SPDX-License-Identifier: Apache-2.0
"""The real exit status of the process, written by the C library on its way out.

Python does not say: after ``raise SystemExit(3)``, or an ``exit(3)`` in a native library, exit handlers see the same
as after a success. glibc passes the status to functions registered with ``on_exit``. By then Python is gone, so the
function is glibc's own ``putw``, which writes one number to a stream. Without glibc, nothing is written.

The stream has a high descriptor. A program may close all its files (a daemon does), and the next file it opens gets the
lowest free number: that must not be ours, or the status would be written into that file.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
from pathlib import Path

from keepstep.base.safe_files import open_private

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
