# SPDX-License-Identifier: Apache-2.0
"""Disk space held back for the end of a run: how each rank ended, the report, the manifest.

Logs can fill a disk to its last block. What explains the failure is a few kilobytes, and comes after that.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from keepstep.base.safe_files import open_private
from keepstep.errors import FULL

T = TypeVar("T")
NAME = ".reserve"
MOST_BYTES, PIECE = 256 << 10, 32 << 10
OF_WHAT_IS_FREE = 4
"""On a small disk, no more than this share is held back."""


class Reserve:
    """A file of zeros that shrinks when something must be written."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder / NAME if folder is not None else None
        self._left = 0
        self._lock = threading.Lock()
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            about = os.statvfs(self._path.parent)
            wanted = min(MOST_BYTES, about.f_bavail * about.f_frsize // OF_WHAT_IS_FREE)
            handle = open_private(self._path, os.O_WRONLY | os.O_EXCL)
            try:
                os.posix_fallocate(handle, 0, max(wanted, 1))
                self._left = wanted
            finally:
                os.close(handle)

    def used_for(self, write: Callable[[], T]) -> T:
        """Do the write; if the disk is full, free some space and try again. Raises ``OSError`` when none is left."""
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in FULL or not self._give():
                    raise

    def _give(self) -> bool:
        with self._lock:
            if self._path is None or self._left <= 0:
                return False
            self._left = max(0, self._left - PIECE)
            with contextlib.suppress(OSError):
                os.truncate(self._path, self._left)
                return True
            return False

    def close(self) -> None:
        """The run is over: give the space back."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
