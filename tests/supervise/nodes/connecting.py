# SPDX-License-Identifier: Apache-2.0
"""Connections of every kind for tests, with both ends as connections, whatever the leader's end is in reality."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.connection import secret, tls
from keepstep.supervise.nodes.connection.dial import connect, over_pipe
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.in_memory import pair
from keepstep.supervise.nodes.connection.interface import Connection, ConnectionLost, Got, Lost, Opened

SOON_S = 20.0
"""Far more than anything here takes on a busy machine."""


@dataclass
class LeadersEnd:
    """One connection of a hub, as if the hub had no others."""

    hub: Hub
    number: int
    peer: str

    def send(self, message: messages.Message) -> None:
        if not self.hub.send(self.number, message):
            raise ConnectionLost("the hub says so")

    def receive(self, timeout_s: float) -> messages.Message | None:
        event = self.hub.receive(timeout_s)
        if isinstance(event, Lost):
            raise ConnectionLost(event.why)
        return event.message if isinstance(event, Got) else None

    def fileno(self) -> int:
        return self.hub.fileno()

    def close(self, flush_s: float = 1.0) -> None:
        self.hub.end(self.number, flush_s)


@contextlib.contextmanager
def hub_with(host: str | None = "127.0.0.1") -> Iterator[tuple[Hub, secret.Secret]]:
    known = secret.make()
    hub = Hub(known, host, None)
    try:
        yield hub, known
    finally:
        hub.close(0)


def opened(hub: Hub) -> Opened:
    event = hub.receive(SOON_S)
    assert isinstance(event, Opened), event
    return event


@contextlib.contextmanager
def memory() -> Iterator[tuple[Connection, Connection]]:
    agent, leader = pair()
    yield agent, leader
    agent.close()
    leader.close()


@contextlib.contextmanager
def local() -> Iterator[tuple[Connection, Connection]]:
    with hub_with() as (hub, _):
        agent = hub.local()
        news = opened(hub)
        yield agent, LeadersEnd(hub, news.connection, news.peer)
        agent.close()


@contextlib.contextmanager
def network(host: str) -> Iterator[tuple[Connection, Connection]]:
    with hub_with(host) as (hub, known):
        agent = connect(known, host, hub.address[1], SOON_S)
        news = opened(hub)
        yield agent, LeadersEnd(hub, news.connection, news.peer)
        agent.close(0)


@contextlib.contextmanager
def pipes() -> Iterator[tuple[Connection, Connection]]:
    (there_in, here_out), (here_in, there_out) = os.pipe(), os.pipe()
    agent, leader = over_pipe(there_in, there_out, "node-0"), over_pipe(here_in, here_out, "node-1")
    yield agent, leader
    agent.close(0)
    leader.close(0)


@contextlib.contextmanager
def hub_over_pipes() -> Iterator[tuple[Connection, Connection]]:
    (there_in, here_out), (here_in, there_out) = os.pipe(), os.pipe()
    with hub_with() as (hub, _):
        agent = over_pipe(there_in, there_out, "node-0")
        number = hub.over_pipe(here_in, here_out, "node-1")
        assert opened(hub) == Opened(number, "node-1")
        yield agent, LeadersEnd(hub, number, "node-1")
        agent.close(0)


Both = Callable[[], "contextlib.AbstractContextManager[tuple[Connection, Connection]]"]
KINDS: dict[str, Both] = {
    "memory": memory,
    "local": local,
    "IPv4": lambda: network("127.0.0.1"),
    "pipes": pipes,
    "hub over pipes": hub_over_pipes,
}
if socket.has_ipv6:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        KINDS["IPv6"] = lambda: network("::1")


def beat(number: int) -> messages.Beat:
    return messages.Beat(number=number, attempt=1, state=messages.State.RUNS)


def parcel(number: int, size: int = 100) -> messages.Parcel:
    return messages.Parcel(attempt=1, name="rank-0/stdout", offset=number, data="a" * size)


def hello() -> messages.Hello:
    return messages.Hello(
        run="r", node=1, host="node-1", address=None, version="1", python="3.11", program="p", per_node=2
    )


def received(connection: Connection) -> messages.Message:
    found = connection.receive(SOON_S)
    assert found is not None, "nothing came"
    return found


def why_lost(connection: Connection) -> str:
    """Wait until the connection is lost; everything before is thrown away."""
    ends = time.monotonic() + SOON_S
    while time.monotonic() < ends:
        try:
            connection.receive(SOON_S)
        except ConnectionLost as error:
            return str(error)
    raise AssertionError("the connection was not lost")


def readable(connection: Connection | Hub, timeout_s: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition; fail if it does not come true."""
    ends = time.monotonic() + SOON_S
    while not true():
        assert time.monotonic() < ends, "it did not become true"
        threading.Event().wait(0.005)


def secured(known: secret.Secret, port: int) -> ssl.SSLSocket:
    """A connection of one that knows the secret, and may then say whatever it likes."""
    _, context = tls.contexts(known)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=SOON_S))
