# SPDX-License-Identifier: Apache-2.0
"""Writing the black box: a record costs well under a microsecond and never waits for a disk.

The file lives in memory (/dev/shm) and survives the process, however it dies; a link in the guard's folder
points to it. The guard at its end, the companion or the supervisor replaces the link with a copy.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import private_folder
from keepstep.signals.blackbox import (
    CAPACITY,
    HEAD,
    HEADER_SIZE,
    MAGIC,
    RECORD,
    SLOT_HEAD,
    SLOT_SIZE,
    SLOTS,
    Record,
    newest_first,
)
from keepstep.signals.box_files import own_memory

KEPT_DEAD_S = 24 * 3600
Write = Callable[..., None]
"""``write(kind, value=0, extra=0)``."""


def nothing(kind: int, value: int = 0, extra: int = 0) -> None:
    """Called where there is no box."""


class Box:
    """One box. ``write`` is a plain function, safe from any thread."""

    def __init__(self, path: Path, who: dict[str, Any], capacity: int = CAPACITY) -> None:
        self.path = path
        size = HEADER_SIZE + capacity * RECORD.size
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        handle = os.open(path, flags, 0o600)
        try:
            os.posix_fallocate(handle, 0, size)  # a full disk fails here, not with a SIGBUS later
            self._memory = mmap.mmap(handle, size)
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(handle)
        HEAD.pack_into(self._memory, 0, MAGIC, RECORD.size, capacity, 0, 0)
        self._slot = 0
        self.write = _writer(self._memory, capacity)
        self.tell(who)

    def tell(self, who: dict[str, Any]) -> None:
        """Say (again) whose box this is. The old text stays valid until the new one is complete."""
        text = json.dumps(who, separators=(",", ":")).encode()[: SLOT_SIZE - SLOT_HEAD.size]
        slot = SLOTS[1 - self._slot]
        self._memory[slot + SLOT_HEAD.size : slot + SLOT_HEAD.size + len(text)] = text
        SLOT_HEAD.pack_into(self._memory, slot, len(text))
        self._slot = 1 - self._slot
        capacity = HEAD.unpack_from(self._memory)[2]
        HEAD.pack_into(self._memory, 0, MAGIC, RECORD.size, capacity, self._slot, 0)

    def recent(self, most: int) -> tuple[Record, ...]:
        """The last records, oldest first."""
        return tuple(itertools.islice(newest_first(self._memory), most))[::-1]

    def bytes(self) -> bytes:
        return self._memory[:]


def _writer(memory: mmap.mmap, capacity: int) -> Write:
    """Word by word through a view: with the caches emptied by a training step, twice as fast as ``struct``."""
    words, number, now = memoryview(memory).cast("q"), itertools.count(1).__next__, time.monotonic_ns
    begin, width = HEADER_SIZE // 8, RECORD.size // 8

    def write(kind: int, value: int = 0, extra: int = 0) -> None:
        n = number()
        at = begin + n % capacity * width
        words[at] = n
        words[at + 1] = now()
        words[at + 2] = value
        words[at + 3] = extra
        words[at + 4] = kind
        words[at + 5] = n

    return write


def in_memory(name: str) -> Path | None:
    """A path for a new box in this host's memory, in a folder that only this user can enter."""
    folder = own_memory()
    try:
        private_folder(folder)
    except OSError:
        return None
    _remove_old(folder)
    return folder / name


def _remove_old(folder: Path) -> None:
    """Remove boxes of processes that have been dead for a day: their runs are over."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError, ValueError):
                dead = not Path(f"/proc/{int(path.name.split('-')[0])}").exists()
                if dead and time.time() - path.stat().st_mtime > KEPT_DEAD_S:
                    path.unlink()
