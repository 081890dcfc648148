# SPDX-License-Identifier: Apache-2.0
"""A connection within one process: for the leader's own agent, and for thousands of agents that a test has."""

from __future__ import annotations

import threading

from keepstep.supervise.nodes.connection.interface import (
    CLOSED_HERE,
    CLOSED_THERE,
    CUT_OFF,
    MOST_QUEUED,
    NOT_READ,
    Connection,
    ConnectionLost,
    Event,
    Got,
    Lost,
    encoded,
    evidence,
)
from keepstep.supervise.nodes.connection.queue import Inbox, QueueSource
from keepstep.supervise.nodes.messages import Message, decode


class MemoryEnd(QueueSource):
    """One end: what the other end sends goes into its inbox, encoded and decoded as on every other connection."""

    other: MemoryEnd

    def __init__(self, number: int, inbox: Inbox[Event]) -> None:
        self.number, self.inbox = number, inbox
        self.why: str | None = None
        """Why nothing can be sent any more."""
        self._lock = threading.Lock()

    def join(self, other: MemoryEnd) -> None:
        self.other, other.other = other, self

    @property
    def unread(self) -> int:
        """Bytes that have arrived and were not received yet."""
        return self.inbox.size

    def send(self, message: Message) -> None:
        line, there = encoded(message), self.other
        with self._lock:
            if self.why is not None:
                raise ConnectionLost(self.why)
            there.inbox.put(there, Got(there.number, decode(line)), len(line), evidence=evidence(message))
        if (waiting := there.unread) > MOST_QUEUED:
            why = NOT_READ.format(waiting / 1e6)
            there.part(CUT_OFF)
            self.part(why)
            raise ConnectionLost(why)

    def part(self, why: str) -> None:
        """The connection is lost, once all that has arrived was received."""
        with self._lock:
            if self.why is not None:
                return
            self.why = why
        self.inbox.put_last(self, Lost(self.number, why))

    def close(self) -> None:
        self.other.part(CLOSED_THERE)
        self.part(CLOSED_HERE)


class MemoryConnection(Connection):
    """A connection to another one of this process, or to a hub."""

    def __init__(self, peer: str = "this process") -> None:
        super().__init__(peer)
        self.end = MemoryEnd(0, self._inbox)

    @property
    def queued(self) -> int:
        return self.end.other.unread if self.end.why is None else 0

    @property
    def stuck(self) -> bool:
        return False

    def send(self, message: Message) -> None:
        self.end.send(message)

    def close(self, flush_s: float = 1.0) -> None:
        self._closed = True
        self.end.close()
        self._inbox.close()


def pair() -> tuple[MemoryConnection, MemoryConnection]:
    """Both ends of one connection."""
    one, two = MemoryConnection(), MemoryConnection()
    one.end.join(two.end)
    return one, two
