# SPDX-License-Identifier: Apache-2.0
"""The thread that reads and writes connections: one for a whole hub, and one for an agent's connection.

It sleeps until the kernel has something for it. A small message is written by the thread that sends it, if nothing
waits before it, so most beats wake no second thread.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from keepstep.supervise.nodes.connection.framing import Lines
from keepstep.supervise.nodes.connection.interface import (
    CLOSED_HERE,
    MOST_QUEUED,
    NOT_READ,
    ConnectionLost,
    Event,
    Got,
    Lost,
    encoded,
    evidence,
)
from keepstep.supervise.nodes.connection.queue import Inbox, Lanes, QueueSource
from keepstep.supervise.nodes.connection.transport import PIECE, Transport, words_for
from keepstep.supervise.nodes.messages import Message
from keepstep.supervise.start.priority import promptly

TURN = 256 << 10
"""Bytes of one connection at a time, so none makes the others wait."""
MOST_TURNS = 64
"""For the last words of one who takes none any more."""
SMALL = 16 << 10
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Handler = Callable[[int], None]


class QueuedConnection(QueueSource):
    """A connection with its queue. ``lock`` guards the transport and the queue; a system call under it never waits."""

    def __init__(self, number: int, transport: Transport, peer: str, *, may_stray: bool = False) -> None:
        self.number, self.transport, self.peer = number, transport, peer
        self.lock = threading.Lock()
        self.lines = Lines(may_stray=may_stray)
        self.why: str | None = None
        """Why nothing can be sent any more."""
        self.gone = False
        self.ending = False
        """Nothing that comes is looked at any more."""
        self.written = False
        self.watched: dict[int, int] = {}
        self._out: Lanes[memoryview] = Lanes()
        self._current = memoryview(b"")

    @property
    def queued(self) -> int:
        return self._out.size + len(self._current)

    def add(self, line: bytes, *, evidence: bool) -> None:
        self._out.add(memoryview(line), len(line), evidence=evidence)

    def flush(self, most: int) -> None:
        """Write what the other side takes, up to about ``most`` bytes."""
        while most > 0:
            if not self._current:
                if not self._out:
                    return
                self._current, _ = self._out.take()
            wrote = self.transport.write(self._current[:PIECE])
            if not wrote:
                return
            self._current = self._current[wrote:]
            most -= wrote

    def drop(self) -> None:
        """Forget what waits to be written."""
        self._out.clear()
        self._current = memoryview(b"")


class ConnectionThread:
    """Connections, and what came over them, as events in ``inbox``."""

    def __init__(self, inbox: Inbox[Event], name: str) -> None:
        self.inbox = inbox
        inbox.when_empty = partial(self.soon, self._resume)
        self.connections: dict[int, QueuedConnection] = {}
        self.selector = selectors.DefaultSelector()
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self.selector.register(self._wake[0], _READ, self._woken)
        self._asked: deque[Callable[[], None]] = deque()
        self._again: set[QueuedConnection] = set()
        self._paused: set[QueuedConnection] = set()
        self._deadlines: dict[object, tuple[float, Callable[[], None]]] = {}
        self._stops = False
        self._over = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- for any thread

    def start(self) -> None:
        self._thread.start()

    def soon(self, action: Callable[[], None]) -> None:
        """Run this in the thread of connections."""
        self._asked.append(action)
        with self._over, contextlib.suppress(BlockingIOError):
            if not self._is_over:
                os.write(self._wake[1], b"x")

    def send(self, connection: QueuedConnection, message: Message) -> None:
        line = encoded(message)
        with connection.lock:
            if connection.why is not None:
                raise ConnectionLost(connection.why)
            waited = connection.queued
            if waited + len(line) > MOST_QUEUED:
                connection.why = NOT_READ.format(waited / 1e6)
                self.soon(partial(self.lose, connection, connection.why))
                raise ConnectionLost(connection.why)
            connection.add(line, evidence=evidence(message))
            if not waited and len(line) <= SMALL:
                try:
                    connection.flush(SMALL)
                except OSError as error:
                    self._broke(connection, error)
                    raise ConnectionLost(connection.why) from None
            if not waited and connection.queued:
                self.soon(partial(self.watch, connection))

    def finish(self, connection: QueuedConnection, flush_s: float) -> None:
        """Close the connection once the other side has taken everything, or after ``flush_s``."""
        with connection.lock:
            connection.why = connection.why or CLOSED_HERE
        self.soon(partial(self._finish, connection, flush_s))

    def close(self, flush_s: float) -> None:
        """Finish all connections, and end the thread."""
        self.soon(partial(self._stop, flush_s))
        self._thread.join(flush_s + 2.0)

    # --- in the thread of connections

    def add(self, connection: QueuedConnection) -> None:
        self.connections[connection.number] = connection
        self.watch(connection)

    def watch(self, connection: QueuedConnection) -> None:
        """Ask the kernel for what this connection waits for now."""
        if connection.gone:
            return
        wanted: dict[int, int] = {}
        if connection not in self._paused:
            wanted[connection.transport.read_fd] = _READ
        if connection.queued and not connection.written:
            wanted[connection.transport.write_fd] = wanted.get(connection.transport.write_fd, 0) | _WRITE
        self.watch_for(connection, wanted, partial(self._ready, connection))

    def watch_for(self, connection: QueuedConnection, wanted: dict[int, int], handler: Handler) -> None:
        for fd in connection.watched.keys() - wanted.keys():
            self.selector.unregister(fd)
        for fd, events in wanted.items():
            if fd not in connection.watched:
                self.selector.register(fd, events, handler)
            elif connection.watched[fd] != events:
                self.selector.modify(fd, events, handler)
        connection.watched = wanted

    def look(self, connection: QueuedConnection) -> None:
        """Read what TLS may hold already, which the kernel knows nothing about."""
        if not connection.gone:
            self._read(connection)

    def later(self, key: object, seconds: float, action: Callable[[], None]) -> None:
        """Do this after ``seconds``, unless it is called off."""
        self._deadlines[key] = (time.monotonic() + seconds, action)

    def call_off(self, key: object) -> None:
        self._deadlines.pop(key, None)

    def lose(self, connection: QueuedConnection, why: str) -> None:
        if connection.gone:
            return
        self.forget(connection, why)
        self.inbox.put_last(connection, Lost(connection.number, connection.why or why))

    def forget(self, connection: QueuedConnection, why: str) -> None:
        """Close it without a word."""
        with connection.lock:
            connection.gone = True
            connection.why = connection.why or why
            connection.drop()
            self.watch_for(connection, {}, lambda events: None)
            with contextlib.suppress(OSError):
                connection.transport.close()
        self.connections.pop(connection.number, None)
        self._again.discard(connection)
        self._paused.discard(connection)
        self.call_off(connection)

    def _ready(self, connection: QueuedConnection, events: int) -> None:
        if events & _WRITE:
            self._write(connection)
        if events & _READ and not connection.gone:
            self._read(connection)

    def _write(self, connection: QueuedConnection) -> None:
        with connection.lock:
            if connection.gone:
                return
            try:
                connection.flush(TURN)
                if connection.ending and not connection.queued and not connection.written:
                    connection.written = True
                    wanted = {fd: _READ for fd in connection.watched if fd == connection.transport.read_fd}
                    self.watch_for(connection, wanted, partial(self._ready, connection))
                    connection.transport.end_writing()
            except OSError as error:
                self._broke(connection, error)
        self.watch(connection)

    def _broke(self, connection: QueuedConnection, error: OSError) -> None:
        """It cannot be written. What the other side sent before is still read."""
        connection.why = connection.why or words_for(error)
        connection.written = True
        connection.drop()
        self.soon(partial(self._read_rest, connection))

    def _read_rest(self, connection: QueuedConnection) -> None:
        for _ in range(MOST_TURNS):
            if connection.gone or not self._read(connection):
                break
        self.lose(connection, connection.why or CLOSED_HERE)

    def _read(self, connection: QueuedConnection) -> bool:
        """Whether anything came."""
        left, why = TURN, None
        found: list[tuple[Message, int]] = []
        while left > 0 and why is None:
            try:
                with connection.lock:
                    data = connection.transport.read()
            except OSError as error:
                why = words_for(error)
                break
            if data is None:
                break
            left -= len(data)
            if not data:
                why = connection.lines.ended()
            elif not connection.ending:
                found += connection.lines.feed(data)
                why = connection.lines.wrong
            if why is None and len(data) < SMALL // 2 and not connection.transport.pending():
                break  # most likely a beat, and nothing after it; else the kernel says so
        for message, size in found:
            self.inbox.put(connection, Got(connection.number, message), size, evidence=evidence(message))
        if why is not None:
            self.lose(connection, why)
        elif self.inbox.crowded(connection):
            self._again.discard(connection)
            self._paused.add(connection)
            self.watch(connection)
        elif left <= 0:
            self._again.add(connection)  # TLS may hold more, which the kernel does not know
        else:
            self._again.discard(connection)
        return left < TURN

    def _resume(self) -> None:
        paused, self._paused = self._paused, set()
        for connection in paused:
            self._again.add(connection)
            self.watch(connection)

    def _finish(self, connection: QueuedConnection, flush_s: float) -> None:
        if connection.gone:
            return
        connection.ending = True
        self._paused.discard(connection)
        self.later(connection, flush_s, partial(self.lose, connection, CLOSED_HERE))
        self._write(connection)

    def _stop(self, flush_s: float) -> None:
        self._stops = True
        for connection in list(self.connections.values()):
            with connection.lock:
                connection.why = connection.why or CLOSED_HERE
            self._finish(connection, flush_s)

    def _woken(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake[0], 4096)
        self._do_asked()

    def _do_asked(self) -> None:
        for _ in range(len(self._asked)):
            self._asked.popleft()()

    def _run(self) -> None:
        why = CLOSED_HERE
        promptly()
        try:
            while not (self._stops and not self.connections):
                for key, events in self.selector.select(self._pause_s()):
                    key.data(events)
                for connection in tuple(self._again):
                    if not connection.gone:
                        self._read(connection)
                self._expire()
        except BaseException as error:
            why = f"keepstep's own thread for connections broke: {type(error).__name__}: {error}"
            raise
        finally:
            self._end(why)

    def _pause_s(self) -> float | None:
        if self._again:
            return 0.0
        if not self._deadlines:
            return None
        return max(0.0, min(at for at, _ in self._deadlines.values()) - time.monotonic())

    def _expire(self) -> None:
        if not self._deadlines:
            return
        now = time.monotonic()
        for key, (at, action) in list(self._deadlines.items()):
            if at <= now:
                self.call_off(key)
                action()

    def _end(self, why: str) -> None:
        with self._over:
            self._is_over = True
        for connection in list(self.connections.values()):
            self.lose(connection, why)
        self.selector.close()
        for end in self._wake:
            os.close(end)
