# SPDX-License-Identifier: Apache-2.0
"""A link within one process: for the leader's own agent, and for thousands of agents that exist only in a test."""

from __future__ import annotations

import threading
from typing import Protocol

from keepstep.supervise.nodes.link import (
    CLOSED_HERE,
    CLOSED_THERE,
    CUT_OFF,
    MOST_QUEUED,
    NOT_READ,
    LinkLost,
    encoded,
    evidence,
)
from keepstep.supervise.nodes.messages import Message, decode
from keepstep.supervise.nodes.queues import Inbox, Source


class End(Protocol):
    """What the other end of a link in memory has."""

    def arrive(self, line: bytes, *, evidence: bool) -> int:
        """Take a line. Returns how many bytes have arrived there and were not received yet."""

    def part(self, why: str) -> None:
        """The link is lost, once all that has arrived was received."""

    @property
    def unread(self) -> int:
        """Bytes that have arrived and were not received yet."""


class MemoryLink:
    """One end. What it sends is encoded and decoded as on every other link."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.other: End | None = None
        self._inbox: Inbox[bytes | LinkLost] = Inbox()
        self._source = Source()
        self._lost: str | None = None
        self._lock = threading.Lock()

    @property
    def queued(self) -> int:
        return self.other.unread if self.other is not None and self._lost is None else 0

    @property
    def stuck(self) -> bool:
        return False

    def send(self, message: Message) -> None:
        line = encoded(message)
        with self._lock:
            if self._lost is not None or self.other is None:
                raise LinkLost(self._lost or CLOSED_THERE)
            waiting = self.other.arrive(line, evidence=evidence(message))
        if waiting > MOST_QUEUED:
            why = NOT_READ.format(waiting / 1e6)
            self.other.part(CUT_OFF)
            self.part(why)
            raise LinkLost(why)

    def receive(self, timeout_s: float) -> Message | None:
        item = self._inbox.take(timeout_s)
        if isinstance(item, LinkLost):
            self._inbox.put(self._source, item)  # the news stays
            raise LinkLost(*item.args)
        if item is None and self._lost == CLOSED_HERE:
            raise LinkLost(CLOSED_HERE)
        return decode(item) if item is not None else None

    def fileno(self) -> int:
        return self._inbox.fileno()

    def close(self, flush_s: float = 1.0) -> None:
        with self._lock:
            already, self._lost = self._lost, CLOSED_HERE
        if already is None and self.other is not None:
            self.other.part(CLOSED_THERE)
        self._inbox.close()

    # --- what the other end calls

    def arrive(self, line: bytes, *, evidence: bool) -> int:
        self._inbox.put(self._source, line, len(line), evidence=evidence)
        return self._inbox.size

    def part(self, why: str) -> None:
        with self._lock:
            if self._lost is not None:
                return
            self._lost = why
        self._inbox.put_last(self._source, LinkLost(why))

    @property
    def unread(self) -> int:
        return self._inbox.size


def pair() -> tuple[MemoryLink, MemoryLink]:
    """Both ends of one link."""
    one, two = MemoryLink("this process"), MemoryLink("this process")
    one.other, two.other = two, one
    return one, two
