# SPDX-License-Identifier: Apache-2.0
"""What a connection between an agent and the leader does, whatever carries it, and what can become of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from keepstep.supervise.nodes.connection.queue import Inbox, QueueSource
from keepstep.supervise.nodes.messages import LARGEST, BadMessage, Collected, Ended, Message, Parcel, Start, encode

MOST_QUEUED = 32 << 20
"""Bytes that may wait for the other side to read. One that lets more wait is cut off."""
CLOSED_HERE = "it was closed on this side"
CLOSED_THERE = "the other side closed the connection"
CUT_OFF = "it was cut off, because it did not read"
NOT_READ = "the other side does not read: {0:.0f} MB wait for it"


class ConnectionLost(Exception):
    """The connection is gone; the text says why."""


class CannotConnect(Exception):
    """There is no connection; the text says why."""


class Stranger(CannotConnect):
    """What listens there does not know this run's secret."""


class CannotListen(Exception):
    """The leader cannot be reached at this address; the text says why."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Somebody who knows the secret has connected to the hub."""

    connection: int
    peer: str


@dataclass(frozen=True, slots=True)
class Got:
    """A message has come."""

    connection: int
    message: Message


@dataclass(frozen=True, slots=True)
class Lost:
    """A connection of the hub is gone. Nothing more comes from it, and its number is not used again."""

    connection: int
    why: str


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Somebody without the secret has tried to connect."""

    peer: str
    why: str


Event = Opened | Got | Lost | TurnedAway


class Connection(ABC):
    """An agent's side of a connection. Messages keep their order, except that evidence lets all others pass."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        """The address of the other side, without a port."""
        self._inbox: Inbox[Event] = Inbox()
        self._closed = False

    @property
    @abstractmethod
    def queued(self) -> int:
        """Bytes that wait to be sent. Senders of much evidence look at it, and wait while it is large."""

    @property
    @abstractmethod
    def stuck(self) -> bool:
        """Whether bytes that were sent may not have reached the other machine, as far as the kernel knows."""

    @abstractmethod
    def send(self, message: Message) -> None:
        """Queue a message; never waits. Raises :class:`ConnectionLost` if the connection is gone, or lost by this."""

    @abstractmethod
    def close(self, flush_s: float = 1.0) -> None:
        """End it. What was sent before still leaves, if the other side takes it within ``flush_s``."""

    def receive(self, timeout_s: float) -> Message | None:
        """The next message; None if none came in time. Raises :class:`ConnectionLost` once all that came was taken."""
        event = self._inbox.take(timeout_s)
        if isinstance(event, Lost):
            self._inbox.put(QueueSource(), event)  # the news stays
            raise ConnectionLost(event.why)
        if event is None and self._closed:
            raise ConnectionLost(CLOSED_HERE)
        return event.message if isinstance(event, Got) else None

    def fileno(self) -> int:
        """Polls readable while a message, or the news that the connection is lost, can be received."""
        return self._inbox.fileno()


def evidence(message: Message) -> bool:
    """Whether this message lets others pass: a parcel, or one that says that all parcels before it were sent.

    Beats must not wait behind megabytes of evidence. All other messages keep their order, and so does evidence.
    """
    return isinstance(message, Parcel | Collected | Ended)


def encoded(message: Message) -> bytes:
    """The line of a message that is not too large for any connection."""
    global _start
    if _start is not None and _start[0] is message:
        return _start[1]
    line = encode(message)
    if len(line) > LARGEST:
        raise BadMessage(f"a message of {len(line)} bytes is too large; {LARGEST} are possible")
    if isinstance(message, Start):
        _start = message, line
    return line


_start: tuple[Start, bytes] | None = None
"""The last one and its line: all nodes get the same, and it names every rank."""
