# SPDX-License-Identifier: Apache-2.0
"""The thread that reads and writes connections: one for a whole hub, and one for an agent's link.

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

from keepstep.supervise.nodes.link import (
    CLOSED_HERE,
    MOST_QUEUED,
    NOT_READ,
    Event,
    Got,
    LinkLost,
    Lost,
    encoded,
    evidence,
)
from keepstep.supervise.nodes.messages import Message
from keepstep.supervise.nodes.queues import Inbox
from keepstep.supervise.nodes.wire import Wire, words_for
from keepstep.supervise.start.priority import promptly

TURN = 256 << 10
"""Bytes of one connection at a time, so none makes the others wait."""
MOST_TURNS = 64
"""For the last words of one who takes none any more."""
SMALL = 16 << 10
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Handler = Callable[[int], None]


class Loop:
    """Connections, and what came over them, as events in ``inbox``."""

    def __init__(self, inbox: Inbox[Event], name: str) -> None:
        self.inbox = inbox
        inbox.when_empty = partial(self.soon, self._resume)
        self.wires: dict[int, Wire] = {}
        self.selector = selectors.DefaultSelector()
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self.selector.register(self._wake[0], _READ, self._woken)
        self._asked: deque[Callable[[], None]] = deque()
        self._again: set[Wire] = set()
        self._paused: set[Wire] = set()
        self._deadlines: dict[object, tuple[float, Callable[[], None]]] = {}
        self._stops = False
        self._over = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- for any thread

    def start(self) -> None:
        self._thread.start()

    def soon(self, action: Callable[[], None]) -> None:
        """Run this in the loop's thread."""
        self._asked.append(action)
        with self._over, contextlib.suppress(BlockingIOError):
            if not self._is_over:
                os.write(self._wake[1], b"x")

    def send(self, wire: Wire, message: Message) -> None:
        line = encoded(message)
        with wire.lock:
            if wire.why is not None:
                raise LinkLost(wire.why)
            waited = wire.queued
            if waited + len(line) > MOST_QUEUED:
                wire.why = NOT_READ.format(waited / 1e6)
                self.soon(partial(self.lose, wire, wire.why))
                raise LinkLost(wire.why)
            wire.add(line, evidence=evidence(message))
            if not waited and len(line) <= SMALL:
                try:
                    wire.flush(SMALL)
                except OSError as error:
                    self._broke(wire, error)
                    raise LinkLost(wire.why) from None
            if not waited and wire.queued:
                self.soon(partial(self.watch, wire))

    def finish(self, wire: Wire, flush_s: float) -> None:
        """Close the connection once the other side has taken everything, or after ``flush_s``."""
        with wire.lock:
            wire.why = wire.why or CLOSED_HERE
        self.soon(partial(self._finish, wire, flush_s))

    def close(self, flush_s: float) -> None:
        """Finish all connections, and end the thread."""
        self.soon(partial(self._stop, flush_s))
        self._thread.join(flush_s + 2.0)

    # --- in the loop's thread

    def add(self, wire: Wire) -> None:
        self.wires[wire.number] = wire
        self.watch(wire)

    def watch(self, wire: Wire) -> None:
        """Ask the kernel for what this connection waits for now."""
        if wire.gone:
            return
        wanted: dict[int, int] = {}
        if wire not in self._paused:
            wanted[wire.channel.read_fd] = _READ
        if wire.queued and not wire.written:
            wanted[wire.channel.write_fd] = wanted.get(wire.channel.write_fd, 0) | _WRITE
        self.watch_for(wire, wanted, partial(self._ready, wire))

    def watch_for(self, wire: Wire, wanted: dict[int, int], handler: Handler) -> None:
        for fd in wire.watched.keys() - wanted.keys():
            self.selector.unregister(fd)
        for fd, events in wanted.items():
            if fd not in wire.watched:
                self.selector.register(fd, events, handler)
            elif wire.watched[fd] != events:
                self.selector.modify(fd, events, handler)
        wire.watched = wanted

    def look(self, wire: Wire) -> None:
        """Read what TLS may hold already, which the kernel knows nothing about."""
        if not wire.gone:
            self._read(wire)

    def later(self, key: object, seconds: float, action: Callable[[], None]) -> None:
        """Do this after ``seconds``, unless it is called off."""
        self._deadlines[key] = (time.monotonic() + seconds, action)

    def call_off(self, key: object) -> None:
        self._deadlines.pop(key, None)

    def lose(self, wire: Wire, why: str) -> None:
        if wire.gone:
            return
        self.forget(wire, why)
        self.inbox.put_last(wire, Lost(wire.number, wire.why or why))

    def forget(self, wire: Wire, why: str) -> None:
        """Close it without a word."""
        with wire.lock:
            wire.gone = True
            wire.why = wire.why or why
            wire.drop()
            self.watch_for(wire, {}, lambda events: None)
            with contextlib.suppress(OSError):
                wire.channel.close()
        self.wires.pop(wire.number, None)
        self._again.discard(wire)
        self._paused.discard(wire)
        self.call_off(wire)

    def _ready(self, wire: Wire, events: int) -> None:
        if events & _WRITE:
            self._write(wire)
        if events & _READ and not wire.gone:
            self._read(wire)

    def _write(self, wire: Wire) -> None:
        with wire.lock:
            if wire.gone:
                return
            try:
                wire.flush(TURN)
                if wire.ending and not wire.queued and not wire.written:
                    wire.written = True
                    wanted = {fd: _READ for fd in wire.watched if fd == wire.channel.read_fd}
                    self.watch_for(wire, wanted, partial(self._ready, wire))
                    wire.channel.end_writing()
            except OSError as error:
                self._broke(wire, error)
        self.watch(wire)

    def _broke(self, wire: Wire, error: OSError) -> None:
        """It cannot be written. What the other side sent before is still read."""
        wire.why = wire.why or words_for(error)
        wire.written = True
        wire.drop()
        self.soon(partial(self._read_rest, wire))

    def _read_rest(self, wire: Wire) -> None:
        for _ in range(MOST_TURNS):
            if wire.gone or not self._read(wire):
                break
        self.lose(wire, wire.why or CLOSED_HERE)

    def _read(self, wire: Wire) -> bool:
        """Whether anything came."""
        left, why = TURN, None
        found: list[tuple[Message, int]] = []
        while left > 0 and why is None:
            try:
                with wire.lock:
                    data = wire.channel.read()
            except OSError as error:
                why = words_for(error)
                break
            if data is None:
                break
            left -= len(data)
            if not data:
                why = wire.lines.ended()
            elif not wire.ending:
                found += wire.lines.feed(data)
                why = wire.lines.wrong
            if why is None and len(data) < SMALL // 2 and not wire.channel.pending():
                break  # most likely a beat, and nothing after it; else the kernel says so
        for message, size in found:
            self.inbox.put(wire, Got(wire.number, message), size, evidence=evidence(message))
        if why is not None:
            self.lose(wire, why)
        elif self.inbox.crowded(wire):
            self._again.discard(wire)
            self._paused.add(wire)
            self.watch(wire)
        elif left <= 0:
            self._again.add(wire)  # TLS may hold more, which the kernel does not know
        else:
            self._again.discard(wire)
        return left < TURN

    def _resume(self) -> None:
        paused, self._paused = self._paused, set()
        for wire in paused:
            self._again.add(wire)
            self.watch(wire)

    def _finish(self, wire: Wire, flush_s: float) -> None:
        if wire.gone:
            return
        wire.ending = True
        self._paused.discard(wire)
        self.later(wire, flush_s, partial(self.lose, wire, CLOSED_HERE))
        self._write(wire)

    def _stop(self, flush_s: float) -> None:
        self._stops = True
        for wire in list(self.wires.values()):
            with wire.lock:
                wire.why = wire.why or CLOSED_HERE
            self._finish(wire, flush_s)

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
            while not (self._stops and not self.wires):
                for key, events in self.selector.select(self._pause_s()):
                    key.data(events)
                for wire in tuple(self._again):
                    if not wire.gone:
                        self._read(wire)
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
        for wire in list(self.wires.values()):
            self.lose(wire, why)
        self.selector.close()
        for end in self._wake:
            os.close(end)
