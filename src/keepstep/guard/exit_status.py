# SPDX-License-Identifier: Apache-2.0
"""The status that the process really leaves with, written down by the C library on its way out.

Python tells nobody: after ``raise SystemExit(3)``, or an ``exit(3)`` of a native library, every exit handler looks as after a
success. glibc hands the status to what was registered by ``on_exit``. By then Python is gone, so what it calls is ``putw``,
also of glibc, which writes one number to a stream. Where there is no glibc nothing is written.

The stream has a high descriptor. A program may close all that it has (a daemon does), and the next file that it opens gets
the lowest number that is free: it must not be ours, or the status would be written into that file.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
from pathlib import Path

from keepstep.core.private_files import open_private

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
        """In a forked child, whose end is not that of the rank."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _high(handle: int) -> int:
    """The same file under a number that is handed out only when very many are open."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return fcntl.fcntl(
            handle, fcntl.F_DUPFD_CLOEXEC, (min(allowed, MOST) if allowed != resource.RLIM_INFINITY else MOST) // 2
        )
    finally:
        os.close(handle)
