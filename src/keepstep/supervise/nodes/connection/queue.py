# SPDX-License-Identifier: Apache-2.0
"""Queues with two lanes: evidence lets everything else pass (see `keepstep.supervise.nodes.connection.evidence`)."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_WAITING = 64 << 20
"""Bytes of messages in one inbox. Above that, nothing more is read from connections that have sent much of it."""
FAIR_SHARE = 1 << 20


class Lanes(Generic[T]):
    """Not thread-safe."""

    def __init__(self) -> None:
        self._first: deque[tuple[T, int]] = deque()
        self._evidence: deque[tuple[T, int]] = deque()
        self.size = 0
        """The bytes of all that waits."""

    def __bool__(self) -> bool:
        return bool(self._first or self._evidence)

    def add(self, item: T, size: int, *, evidence: bool) -> None:
        (self._evidence if evidence else self._first).append((item, size))
        self.size += size

    def take(self) -> tuple[T, int]:
        item, size = (self._first or self._evidence).popleft()
        self.size -= size
        return item, size

    def clear(self) -> None:
        self._first.clear()
        self._evidence.clear()
        self.size = 0


class QueueSource:
    """Whom messages in an inbox come from."""

    waiting = 0
    """Bytes of its evidence that were not taken out yet."""


class Inbox(Generic[T]):
    """What has come, for one thread that waits in :meth:`take`, or polls :meth:`fileno`."""

    def __init__(self) -> None:
        self._lanes: Lanes[tuple[QueueSource, T, bool]] = Lanes()
        self._changed = threading.Condition(threading.Lock())
        self._pipe: tuple[int, int] | None = None
        self._closed = False
        self.when_empty: Callable[[], None] | None = None
        """Called by :meth:`take` when there is room again after :meth:`crowded` was true."""
        self._was_crowded = False

    def put(self, source: QueueSource, item: T, size: int = 0, *, evidence: bool = False) -> None:
        """``size`` is at least one for evidence."""
        with self._changed:
            if self._closed:
                return
            was_empty = not self._lanes
            self._lanes.add((source, item, evidence), size, evidence=evidence)
            if evidence:
                source.waiting += size
            if was_empty:
                self._signal()
                self._changed.notify()

    def put_last(self, source: QueueSource, item: T) -> None:
        """Behind everything else of this source."""
        self.put(source, item, 1, evidence=source.waiting > 0)

    def take(self, timeout_s: float) -> T | None:
        """The next one; None if there is none in time."""
        with self._changed:
            if not self._lanes and not self._closed and timeout_s > 0:
                self._changed.wait_for(lambda: self._lanes or self._closed, timeout_s)
            if not self._lanes:
                return None
            (source, item, evidence), size = self._lanes.take()
            if evidence:
                source.waiting -= size
            if not self._lanes:
                self._clear_signal()
            roomy = self._was_crowded and self._lanes.size < MOST_WAITING // 2
            if roomy:
                self._was_crowded = False
        if roomy and self.when_empty is not None:
            self.when_empty()
        return item

    def crowded(self, source: QueueSource) -> bool:
        """Whether so much waits that nothing more should be read from this source for now."""
        with self._changed:
            if self._lanes.size < MOST_WAITING or source.waiting < FAIR_SHARE:
                return False
            self._was_crowded = True
            return True

    @property
    def size(self) -> int:
        return self._lanes.size

    def fileno(self) -> int:
        with self._changed:
            if self._closed:
                return -1
            if self._pipe is None:
                self._pipe = os.pipe()
                for end in self._pipe:
                    os.set_blocking(end, False)
                if self._lanes:
                    self._signal()
            return self._pipe[0]

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._lanes.clear()
            self._changed.notify_all()
            pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)

    def _signal(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._pipe[1], b"x")

    def _clear_signal(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._pipe[0], 64)
