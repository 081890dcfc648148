# SPDX-License-Identifier: Apache-2.0
"""The status that the process really leaves with, written down by the C library on its way out.

Python tells nobody: after ``raise SystemExit(3)``, or an ``exit(3)`` of a native library, every exit handler looks as after a
success. glibc hands the status to what was registered by ``on_exit``. By then Python is gone, so what it calls is ``putw``,
also of glibc, which writes one number to a stream. Where there is no glibc nothing is written.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


class ExitStatus:
    """Asks glibc to write the status to ``path``. A forked child has the same stream: it must ``forget`` it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        libc = ctypes.CDLL(None)
        if not (hasattr(libc, "on_exit") and hasattr(libc, "putw") and hasattr(libc, "fdopen")):
            return
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
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
