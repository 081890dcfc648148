# SPDX-License-Identifier: Apache-2.0
"""Visitors without the secret, and agents that break the rules: each is turned away, in bounded time, alone."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.connection import hub as hub_module
from keepstep.supervise.nodes.connection import secret, tls
from keepstep.supervise.nodes.connection.dial import connect
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.interface import (
    CannotConnect,
    CannotListen,
    Connection,
    Got,
    Lost,
    Opened,
    Stranger,
    TurnedAway,
)
from tests.supervise.nodes.connecting import SOON_S, beat, hello, hub_with, opened, parcel, secured, until


@pytest.fixture
def known_hub() -> Iterator[tuple[Hub, secret.Secret]]:
    with hub_with() as both:
        yield both


def knock(hub: Hub) -> socket.socket:
    return socket.create_connection(hub.address, timeout=SOON_S)


def still_serves(hub: Hub, known: secret.Secret) -> None:
    agent = connect(known, "127.0.0.1", hub.address[1], SOON_S)
    number = opened(hub).connection
    agent.send(beat(1))
    assert hub.receive(SOON_S) == Got(number, beat(1))
    agent.close()
    assert isinstance(hub.receive(SOON_S), Lost)


@contextlib.contextmanager
def server_that(answers: bytes | None) -> Iterator[int]:
    """A listener that answers every connection with these bytes, or never; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    held.append(connection)
                    if answers == b"":
                        connection.close()
                    elif answers is not None:
                        connection.sendall(answers)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(SOON_S)
        for each in held:
            each.close()


# --- who calls the leader


def test_one_with_another_secret_is_turned_away_and_learns_why(known_hub: tuple[Hub, secret.Secret]) -> None:
    hub, known = known_hub
    with pytest.raises(Stranger, match=r"the agent at 127\.0\.0\.1:\d+ does not know this run's secret"):
        connect(secret.make(), "127.0.0.1", hub.address[1], SOON_S)
    assert hub.receive(SOON_S) == TurnedAway("127.0.0.1", "it does not know this run's secret")
    still_serves(hub, known)


@pytest.mark.parametrize(
    "text", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 5000, bytes(range(256)), b'{"kind":"bye"}\n']
)
def test_plain_text_is_turned_away(known_hub: tuple[Hub, secret.Secret], text: bytes) -> None:
    hub, known = known_hub
    with knock(hub) as visitor, contextlib.suppress(OSError):  # the hub may be faster
        visitor.sendall(text)
        visitor.shutdown(socket.SHUT_WR)
        while visitor.recv(1000):
            pass
    event = hub.receive(SOON_S)
    assert isinstance(event, TurnedAway) and "no agent" in event.why
    still_serves(hub, known)


def context_with(chain: bytes | None, **settings: ssl.TLSVersion) -> ssl.SSLContext:
    """A visitor that trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in settings.items():
        setattr(context, name, value)
    if chain is not None:
        with tls._as_file(chain) as path:
            context.load_cert_chain(path)
    return context


@pytest.mark.parametrize("proof", ["none", "another", "old TLS"])
def test_nobody_comes_in_without_the_proof(known_hub: tuple[Hub, secret.Secret], proof: str) -> None:
    hub, known = known_hub
    if proof == "old TLS":
        context = context_with(b"".join(tls.derived(known)), maximum_version=ssl.TLSVersion.TLSv1_2)
    else:
        context = context_with(b"".join(tls.derived(secret.make())) if proof == "another" else None)
    with pytest.raises(OSError), knock(hub) as visitor, context.wrap_socket(visitor) as inside:
        inside.sendall(messages.encode(hello()))
        while inside.recv(1000):
            pass
        raise ConnectionResetError("the hub has closed it")
    event = hub.receive(SOON_S)
    assert isinstance(event, TurnedAway), event
    still_serves(hub, known)


def test_visitors_who_say_nothing_keep_nobody_out(known_hub: tuple[Hub, secret.Secret]) -> None:
    hub, known = known_hub
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(knock(hub))
        for _ in range(hub_module.MOST_GREETED + 20):
            stack.enter_context(knock(hub))
        still_serves(hub, known)
        assert first.recv(1) == b"", "the one who waits longest goes first"
        assert len(hub._greeted) <= hub_module.MOST_GREETED


def test_a_leader_without_descriptors_lets_newcomers_wait_and_not_for_ever(
    known_hub: tuple[Hub, secret.Secret],
) -> None:
    hub, known = known_hub
    busy = connect(known, "127.0.0.1", hub.address[1], SOON_S)
    number = opened(hub).connection
    visitor = socket.socket()
    lowest = os.dup(visitor.fileno())
    os.close(lowest)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        visitor.connect(hub.address)
        until(lambda: hub._listener in hub._thread._deadlines)
        busy.send(beat(1))
        assert hub.receive(SOON_S) == Got(number, beat(1))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with tls.contexts(known)[1].wrap_socket(visitor):
        assert opened(hub).peer == "127.0.0.1"
    busy.close()


def test_a_handshake_that_drips_in_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "GREET_S", 0.3)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context_with(None).wrap_bio(incoming, outgoing)
    shy = context_with(None).wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        shy.do_handshake()
    text = outgoing.read()
    with hub_with() as (hub, known), knock(hub) as visitor:
        visitor.settimeout(0.02)
        begun, sent, ended = time.monotonic(), 0, False
        while not ended and sent < len(text) - 1:
            try:
                visitor.send(text[sent : sent + 1])
                sent += 1
                ended = visitor.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
        assert ended, "it was let to go on"
        assert time.monotonic() - begun < SOON_S / 2
        still_serves(hub, known)
        assert hub.receive(0) is None


# --- agents that know the secret and break the rules


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"garbage\n", "cannot be read"),
        (b"\x00\xff\n", "cannot be read"),
        (b'{"kind":"mystery"}\n', "cannot be read"),
        (b'{"kind":"heard","number":"1"}\n', "cannot be read"),
        (b"[" * 100_000 + b"\n", "cannot be read"),
        (b"x" * (messages.LARGEST + 100_000), "a line of more than 4 MiB"),
        (b'{"kind":', "within a message"),
    ],
)
def test_what_is_no_message_ends_that_connection_only(
    known_hub: tuple[Hub, secret.Secret], text: bytes, why: str
) -> None:
    hub, known = known_hub
    other = connect(known, "127.0.0.1", hub.address[1], SOON_S)
    good = opened(hub).connection
    visitor = secured(known, hub.address[1])
    bad = opened(hub).connection
    with contextlib.suppress(OSError):
        visitor.sendall(messages.encode(beat(1)) + text)
        visitor.shutdown(socket.SHUT_WR)
    assert hub.receive(SOON_S) == Got(bad, beat(1)), "what came before it counts"
    lost = hub.receive(SOON_S)
    assert isinstance(lost, Lost) and lost.connection == bad and why in lost.why, lost
    visitor.close()
    other.send(beat(2))
    assert hub.receive(SOON_S) == Got(good, beat(2))
    other.close()


def test_an_agent_that_sends_byte_by_byte_delays_nobody(known_hub: tuple[Hub, secret.Secret]) -> None:
    hub, known = known_hub
    with secured(known, hub.address[1]) as slow:
        number = opened(hub).connection
        for index, byte in enumerate(messages.encode(beat(9))):
            if index == 30:
                still_serves(hub, known)
            slow.sendall(bytes([byte]))
        assert hub.receive(SOON_S) == Got(number, beat(9))


def test_a_changed_byte_on_the_way_ends_the_connection(known_hub: tuple[Hub, secret.Secret]) -> None:
    hub, known = known_hub
    with socket.create_server(("127.0.0.1", 0)) as listener:
        box: list[Connection] = []
        calls = threading.Thread(
            target=lambda: box.append(connect(known, "127.0.0.1", listener.getsockname()[1], SOON_S))
        )
        calls.start()
        near, _ = listener.accept()
    far = knock(hub)
    tampers = threading.Event()

    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if tampers.is_set():
                    data = data[:-1] + bytes([data[-1] ^ 1])
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    carriers = [threading.Thread(target=carry, args=each, daemon=True) for each in ((near, far), (far, near))]
    for each in carriers:
        each.start()
    calls.join(SOON_S)
    number = opened(hub).connection
    box[0].send(beat(1))
    assert hub.receive(SOON_S) == Got(number, beat(1))
    tampers.set()
    box[0].send(beat(2))
    lost = hub.receive(SOON_S)
    assert isinstance(lost, Lost) and "not what the other side sent" in lost.why
    box[0].close()
    for each in (near, far):
        each.close()
    for thread in carriers:
        thread.join(SOON_S)


# --- what an agent meets when it calls


@pytest.mark.parametrize("answers", [b"SSH-2.0-OpenSSH_9.2\r\n" * 3, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 99])
def test_what_is_no_agent_is_a_stranger(answers: bytes) -> None:
    with server_that(answers) as port, pytest.raises(Stranger, match="is no agent"):
        connect(secret.make(), "127.0.0.1", port, SOON_S)


def test_one_who_says_nothing_is_given_up_in_time() -> None:
    begun = time.monotonic()
    with server_that(None) as port, pytest.raises(CannotConnect, match=r"said nothing within 0\.3 s"):
        connect(secret.make(), "127.0.0.1", port, 0.3)
    assert time.monotonic() - begun < SOON_S / 2


def test_one_who_drips_a_handshake_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03")  # a greeting of 16 KiB begins
                while not over.wait(0.02):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(CannotConnect, match=r"said nothing|is no agent"):
            connect(secret.make(), "127.0.0.1", listener.getsockname()[1], 0.5)
        assert time.monotonic() - begun < SOON_S / 2
        over.set()
        thread.join(SOON_S)


def test_one_who_hangs_up_is_reported() -> None:
    with server_that(b"") as port, pytest.raises(CannotConnect, match="closed it again"):
        connect(secret.make(), "127.0.0.1", port, SOON_S)


def test_a_port_where_nothing_listens_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CannotConnect, match=rf"127\.0\.0\.1:{port} refused the connection"):
        connect(secret.make(), "127.0.0.1", port, SOON_S)


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a..b", "x" * 300, ""])
def test_a_name_without_an_address_is_reported(name: str) -> None:
    with pytest.raises(CannotConnect, match=r"cannot be resolved|refused|could not be resolved|cannot be reached"):
        connect(secret.make(), name, 1, 3.0)


def test_an_address_of_another_machine_cannot_be_listened_at() -> None:
    with pytest.raises(CannotListen, match=r"198\.18\.0\.99"):
        Hub(secret.make(), "198.18.0.99", None)
    with hub_with() as (hub, known), pytest.raises(CannotListen, match="in use"):
        Hub(known, *hub.address)


# --- processes that die or stop

AGENT = """
import sys
from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.connection import secret
from keepstep.supervise.nodes.connection.dial import connect
connection = connect(secret.find(dict(KEEPSTEP_SECRET=sys.stdin.readline())), "127.0.0.1", int(sys.argv[1]), 30)
connection.send(messages.Welcome())
while True:
    connection.receive(60)
"""


@contextlib.contextmanager
def agent_process(hub: Hub, known: secret.Secret) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    command = [sys.executable, "-c", AGENT, str(hub.address[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(known.reveal().encode() + b"\n")
            process.stdin.flush()
            number = opened(hub).connection
            assert hub.receive(SOON_S) == Got(number, messages.Welcome())
            yield process, number
        finally:
            process.kill()


def test_a_killed_agent_is_noticed_at_once(known_hub: tuple[Hub, secret.Secret]) -> None:
    hub, known = known_hub
    with agent_process(hub, known) as (process, number):
        process.send_signal(signal.SIGKILL)
        begun = time.monotonic()
        lost = hub.receive(SOON_S)
        assert isinstance(lost, Lost) and lost.connection == number
        assert time.monotonic() - begun < 2.0, "noticed by the lease, not by the connection"


def test_a_stopped_agent_delays_nobody_and_is_cut_off_when_too_much_waits(known_hub: tuple[Hub, secret.Secret]) -> None:
    hub, known = known_hub
    with agent_process(hub, known) as (process, number):
        process.send_signal(signal.SIGSTOP)
        count = 0
        while hub.send(number, parcel(count, 1_000_000)):
            count += 1
            assert count < 200, "it takes everything"
        still = connect(known, "127.0.0.1", hub.address[1], SOON_S)
        events = [hub.receive(SOON_S), hub.receive(SOON_S)]
        assert {type(each) for each in events} == {Lost, Opened}
        lost = next(each for each in events if isinstance(each, Lost))
        assert lost.connection == number and "does not read" in lost.why
        still.close()


def test_two_hundred_agents_talk_at_once(known_hub: tuple[Hub, secret.Secret]) -> None:
    hub, known = known_hub
    with contextlib.ExitStack() as stack:
        agents = [stack.enter_context(secured(known, hub.address[1])) for _ in range(200)]
        numbers = {opened(hub).connection for _ in agents}
        assert len(numbers) == 200
        for number, agent in enumerate(agents):
            agent.sendall(messages.encode(beat(number)))
        for _ in agents:
            event = hub.receive(SOON_S)
            assert isinstance(event, Got) and isinstance(event.message, messages.Beat)
            assert hub.send(event.connection, messages.Heard(number=event.message.number))
        for number, agent in enumerate(agents):
            assert messages.decode(agent.recv(1000)) == messages.Heard(number=number)
    assert {type(hub.receive(SOON_S)) for _ in agents} == {Lost}
