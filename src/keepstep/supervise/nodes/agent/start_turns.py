# SPDX-License-Identifier: Apache-2.0
"""Agents that share a host start their ranks in turns: if all did so at once, none of them could be heard meanwhile.

Several agents per host are usual where the engine starts one per task. Alone on a host, an agent never waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from keepstep.base.safe_files import private_folder
from keepstep.signals.box_files import own_memory

LONGEST_S = 120.0
"""Then it is started anyway: whoever has the turn may be frozen."""


@contextlib.contextmanager
def turn(folder: Path | None = None, *, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Alone among the agents of this user on this host, if that can be had in time. The turn ends with the process."""
    handle = _open(folder or own_memory())
    try:
        if handle is not None:
            _wait(handle, longest_s)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _open(folder: Path) -> int | None:
    """The folder itself is what is locked: no file is left behind."""
    with contextlib.suppress(OSError):
        private_folder(folder)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    return None


def _wait(handle: int, longest_s: float) -> None:
    """The kernel keeps the order. It knows no time-out, so a thread waits for it, and gives up with the descriptor."""
    granted = threading.Event()

    def lock() -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        granted.set()

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        threading.Thread(target=lock, name="keepstep-turn", daemon=True).start()
        granted.wait(longest_s)
    except OSError:
        return
