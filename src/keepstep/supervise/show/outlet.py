# SPDX-License-Identifier: Apache-2.0
"""Standard output or error, written by a thread of its own: a reader who stops reading stops nothing else.

A terminal after Ctrl-S and a pager that waits for a key are such readers. The supervisor must go on to watch, to decide
and to end ranks meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import deque
from typing import TextIO

MOST_BEHIND = 256 << 10
"""Bytes that wait for the reader. What ranks print is not fetched beyond that."""
MOST_WORDS = 4 << 20
"""Nor is anything else kept beyond this."""
PIECE = 64 << 10


class Outlet:
    """One file, which may be standard output and standard error at once."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[TextIO, bytes]] = deque()
        self._behind = 0
        self._changed = threading.Condition()
        self._started = self._closed = False

    @property
    def is_full(self) -> bool:
        return self._behind > MOST_BEHIND

    def put(self, where: TextIO, data: bytes) -> None:
        """Have it written, after what was put before. Never waits, except after :meth:`close`."""
        if self._closed or getattr(where, "buffer", None) is None:
            _write(where, data)
            return
        with self._changed:
            if self._behind > MOST_WORDS:
                return
            self._waiting.append((where, data))
            self._behind += len(data)
            self._changed.notify_all()
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="outlet", daemon=True).start()
                atexit.register(self.close)

    def wait_for_room(self, limit_s: float | None = None) -> bool:
        """Until half of what may wait is left, or until the limit."""
        with self._changed:
            return self._changed.wait_for(lambda: self._behind <= MOST_BEHIND // 2, limit_s)

    def close(self) -> None:
        """Wait until all is written, as any program does in the end. What is put later is written at once."""
        with self._changed:
            self._changed.wait_for(lambda: not self._behind)
            self._closed = True
            self._changed.notify_all()
        atexit.unregister(self.close)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                where, data = self._waiting.popleft()
                while self._waiting and self._waiting[0][0] is where and len(data) < PIECE:
                    data += self._waiting.popleft()[1]
            _write(where, data)
            with self._changed:
                self._behind -= len(data)
                self._changed.notify_all()


def same_file(one: TextIO, other: TextIO) -> bool:
    """Whether what is written to both comes out at one place, where its order matters."""
    if one is other:
        return True
    with contextlib.suppress(OSError, ValueError, AttributeError):
        first, second = os.fstat(one.fileno()), os.fstat(other.fileno())
        return (first.st_dev, first.st_ino, first.st_rdev) == (second.st_dev, second.st_ino, second.st_rdev)
    return False


def _write(where: TextIO, data: bytes) -> None:
    raw = getattr(where, "buffer", None)
    try:
        if raw is None:
            where.write(data.decode("utf-8", "replace"))
        else:
            where.flush()
            raw.write(data)
            raw.flush()
    except (OSError, ValueError):
        _gone(where)


def _gone(where: TextIO) -> None:
    """The reader is gone (`| head`): the run continues, and what Python still buffers must not fail at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, where.fileno())
        os.close(nowhere)
