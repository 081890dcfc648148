# SPDX-License-Identifier: Apache-2.0
"""An agent's own folder on its node, gone with it however it ends.

The agent removes it, or else its reaper. If both were killed, as engines do that end all processes of a job, the next
agent on the node does. A lock says that an agent lives: it ends with the process, and means the same in all containers
that share the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "keepstep-node-"
LOCK = ".lock"
YOUNG_S = 60.0
"""Its agent may just be about to take the lock."""


def make_room() -> Path:
    """A new one for this process, after those of agents that are gone were removed."""
    sweep(Path(tempfile.gettempdir()))
    room = Path(tempfile.mkdtemp(prefix=PREFIX))
    with contextlib.suppress(OSError):  # without a lock it is never swept, and otherwise the same
        handle = os.open(room / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # kept open: until this process ends
    return room


def sweep(folder: Path) -> None:
    """Remove the folders of this user's agents that no longer live. Never raises."""
    with contextlib.suppress(OSError):
        for room in folder.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if not room.is_symlink() and room.lstat().st_uid == os.geteuid() and _is_left(room / LOCK):
                    shutil.rmtree(room, ignore_errors=True)


def _is_left(lock: Path) -> bool:
    handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if time.time() - os.fstat(handle).st_mtime < YOUNG_S:
            return False
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where its agent lives
        return True
    finally:
        os.close(handle)
