# SPDX-License-Identifier: Apache-2.0
"""Somebody between agent and leader who cannot read a byte, but records, repeats, drops, swaps and cuts what passes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from keepstep.supervise.nodes.connection import secret
from keepstep.supervise.nodes.connection.dial import connect
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.interface import Connection, ConnectionLost, Event, Got, Lost, Opened
from tests.supervise.nodes.connecting import SOON_S, beat, hub_with, until

HEADER = 5
"""Of a TLS record: kind, version, and two bytes that say how long it is."""


class Between:
    """Passes on each record of TLS from the agent to the hub as ``tamper`` says, and what the hub answers as it is."""

    def __init__(self, hub: Hub, known: secret.Secret) -> None:
        self.records: list[bytes] = []
        """All that the agent has sent."""
        self.tamper: Callable[[bytes], bytes | None] = lambda record: record
        """What to pass on instead; None: nothing, and hang up."""
        assert hub.address is not None
        with socket.create_server(("127.0.0.1", 0)) as listener:
            box: list[Connection] = []
            port = listener.getsockname()[1]
            calls = threading.Thread(target=lambda: box.append(connect(known, "127.0.0.1", port, SOON_S)))
            calls.start()
            self.near, _ = listener.accept()
        self.far = socket.create_connection(hub.address, timeout=SOON_S)
        self.threads = [threading.Thread(target=each, daemon=True) for each in (self._there, self._back)]
        for thread in self.threads:
            thread.start()
        calls.join(SOON_S)
        self.agent = box[0]

    def _there(self) -> None:
        with contextlib.suppress(OSError), self.near.makefile("rb") as stream:
            while head := stream.read(HEADER):
                record = head + stream.read(int.from_bytes(head[3:], "big"))
                self.records.append(record)
                passed = self.tamper(record)
                if passed is None:
                    break
                self.far.sendall(passed)
            self.far.shutdown(socket.SHUT_WR)

    def _back(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.far.recv(1 << 16):
                self.near.sendall(data)

    def close(self) -> None:
        self.agent.close(0)
        for each in (self.near, self.far):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self.threads:
            thread.join(SOON_S)


@pytest.fixture
def hub_and_secret() -> Iterator[tuple[Hub, secret.Secret]]:
    with hub_with() as both:
        yield both


@pytest.fixture
def between(hub_and_secret: tuple[Hub, secret.Secret]) -> Iterator[Between]:
    made = Between(*hub_and_secret)
    yield made
    made.close()


def until_lost(hub: Hub) -> tuple[list[Event], str]:
    """What the hub got from a connection until it was lost, and why."""
    found: list[Event] = []
    ends = time.monotonic() + SOON_S
    while time.monotonic() < ends:
        event = hub.receive(1.0)
        if isinstance(event, Lost):
            return found, event.why
        found += [event] if isinstance(event, Got) else []
    raise AssertionError(f"the connection was not lost: {found}")


def once(tamper: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    left = [tamper]
    return lambda record: left.pop()(record) if left else record


def twice(record: bytes) -> bytes:
    return record + record


def halved(record: bytes) -> bytes:
    return record[: len(record) // 2]


def longer_than_it_may_be(record: bytes) -> bytes:
    return record[:3] + (0xFFFF).to_bytes(2, "big") + bytes(0xFFFF)


def as_plain_text(record: bytes) -> bytes:
    return b"\x17\x03\x03" + (20).to_bytes(2, "big") + b'{"kind":"bye","s":1}'


@pytest.mark.parametrize("tamper", [twice, halved, longer_than_it_may_be, as_plain_text])
def test_a_record_that_is_not_as_it_was_sent_ends_the_connection(
    between: Between, hub_and_secret: tuple[Hub, secret.Secret], tamper: Callable[[bytes], bytes]
) -> None:
    hub, known = hub_and_secret
    between.agent.send(beat(1))
    until(lambda: isinstance(hub.receive(SOON_S), Got))
    between.tamper = once(tamper)
    sent = len(between.records)
    between.agent.send(beat(2))
    until(lambda: len(between.records) > sent)
    with contextlib.suppress(ConnectionLost):
        between.agent.send(beat(3))
    found, why = until_lost(hub)
    assert len(found) <= (tamper is twice), "what was sent twice counts once, and nothing after it"
    assert why
    other = connect(known, "127.0.0.1", hub.address[1], SOON_S)
    assert isinstance(hub.receive(SOON_S), Opened)
    other.close(0)


def test_records_in_another_order_are_not_taken(between: Between, hub_and_secret: tuple[Hub, secret.Secret]) -> None:
    hub, _ = hub_and_secret
    held: list[bytes] = []
    between.agent.send(beat(1))
    until(lambda: isinstance(hub.receive(SOON_S), Got))

    def swap(record: bytes) -> bytes:
        held.append(record)
        return b"" if len(held) == 1 else record + held[0]

    between.tamper = swap
    between.agent.send(beat(2))
    until(lambda: bool(held))
    between.agent.send(beat(3))
    assert until_lost(hub)[0] == []


def test_a_connection_that_is_cut_within_a_message_delivers_nothing_of_it(
    between: Between, hub_and_secret: tuple[Hub, secret.Secret]
) -> None:
    hub, _ = hub_and_secret
    between.agent.send(beat(1))
    until(lambda: isinstance(hub.receive(SOON_S), Got))
    between.tamper = lambda record: None
    between.agent.send(beat(2))
    assert until_lost(hub)[0] == []


def test_what_was_recorded_opens_no_second_connection(
    between: Between, hub_and_secret: tuple[Hub, secret.Secret]
) -> None:
    hub, _ = hub_and_secret
    between.agent.send(beat(1))
    until(lambda: isinstance(hub.receive(SOON_S), Got))
    recorded = b"".join(between.records)
    with socket.create_connection(hub.address, timeout=SOON_S) as again, contextlib.suppress(OSError):
        again.sendall(recorded)
        again.shutdown(socket.SHUT_WR)
        while again.recv(1 << 16):
            pass
    between.agent.send(beat(2))
    until(lambda: isinstance(event := hub.receive(SOON_S), Got) and event.message == beat(2))
    assert not [each for each in (hub.receive(0.0) for _ in range(10)) if isinstance(each, Opened | Got)]
