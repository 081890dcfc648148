# SPDX-License-Identifier: Apache-2.0
"""How the processes of one check find each other: on this machine, over loopback."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.check.meeting.connection import (
    GREETING,
    LARGEST,
    NONCE,
    BadFrame,
    ProvenConnection,
    ProvenListener,
    UnprovenPeer,
    answer,
    call,
)
from keepstep.check.meeting.meeting_point import Appointment, Attendee, Desk, arrange, join, open_desk
from keepstep.check.network.probe import ProbeContact
from keepstep.check.place import Place
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.errors import UserError
from keepstep.model.facts.links import Reached
from tests.check.conftest import free_port

TOKEN = b"the token of this test"
HELLO = {"rank": 1, "host": "here", "who": "me", "addresses": []}


def a_place(
    size: int = 2, me: int | None = 0, meeting: str | None = "node-0:29500", job: str | None = "7", **env: str
) -> Place:
    tasks = tuple(Task(rank=rank, index=rank, host=f"node-{rank}", port=2222) for rank in range(size))
    return Place(
        env=env, host="node-0", cluster=Cluster(said_by="torchrun", tasks=tasks, me=me, meeting=meeting, job=job)
    )


def an_appointment(
    ports: tuple[int, ...], expected: tuple[int, ...] | None = (1,), wait: float = 10.0, token: bytes = TOKEN
) -> Appointment:
    return Appointment(
        host="127.0.0.1",
        ports=ports,
        token=token,
        identity="a test",
        leads=True,
        expected=expected,
        wait=wait,
        alone=True,
    )


def no_loss(guest: Attendee, during: str, how: str) -> None:
    raise AssertionError(f"{guest.host} was lost: {how}")


@contextlib.contextmanager
def connected_ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = socket.create_connection(listening.getsockname())
        other, _ = listening.accept()
        with one, other:
            yield one, other


@pytest.fixture
def both_ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with connected_ends() as ends:
        yield ends


def shaken(
    one: socket.socket, other: socket.socket, mine: bytes = TOKEN, theirs: bytes = TOKEN
) -> tuple[ProvenConnection, ProvenConnection]:
    got: list[ProvenConnection | Exception] = []

    def called() -> None:
        try:
            got.append(answer(other, theirs))
        except Exception as error:
            got.append(error)
            other.close()

    thread = threading.Thread(target=called)
    thread.start()
    try:
        caller = call(one, mine)
    finally:
        thread.join(10)
    assert isinstance(got[0], ProvenConnection)
    return caller, got[0]


def test_two_who_know_the_token_can_talk(both_ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = shaken(*both_ends)
    large = {"evidence": [os.urandom(30).hex() for _ in range(5000)]}
    thread = threading.Thread(target=one.send, args=(large,))
    thread.start()
    assert other.receive(10) == large
    thread.join(10)
    other.send({"thanks": "\ud800 ü"})
    assert one.receive(5) == {"thanks": "\ufffd ü"}, "half a character is none"


def test_who_does_not_know_the_token_is_a_stranger(both_ends: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(UnprovenPeer):
        shaken(*both_ends, theirs=b"another")


def test_who_answers_with_something_else_is_a_stranger(both_ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = both_ends
    other.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    with pytest.raises(UnprovenPeer):
        call(one, TOKEN)


def test_who_says_nothing_is_not_waited_for_long(both_ends: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(TimeoutError):
        call(both_ends[0], TOKEN, within=0.2)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_what_a_stranger_sends_ends_in_an_error_that_is_expected(garbage: bytes) -> None:
    with connected_ends() as (one, other):
        one.sendall(garbage)
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(OSError):
            answer(other, TOKEN, within=2)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_what_a_changed_message_holds_is_never_read(garbage: bytes) -> None:
    with connected_ends() as (one, other):
        _, called = shaken(one, other)
        one.sendall(struct.pack(">I", len(garbage)) + bytes(32) + garbage)
        with pytest.raises(BadFrame):
            called.receive(2)


def test_a_message_that_is_announced_too_large_is_refused_at_once(
    both_ends: tuple[socket.socket, socket.socket],
) -> None:
    one, other = shaken(*both_ends)
    one.socket.sendall(struct.pack(">I", LARGEST + 1) + bytes(40))
    with pytest.raises(BadFrame):
        other.receive(2)


def test_a_greeting_says_nothing_about_the_token() -> None:
    assert TOKEN not in GREETING


@pytest.mark.parametrize(
    ("place", "meet", "host", "leads"),
    [
        (a_place(), None, "node-0", True),
        (a_place(me=1), None, "node-0", False),
        (a_place(meeting=None), None, "node-0", True),
        (a_place(meeting="[fd00::1]:29500"), None, "fd00::1", True),
        (a_place(me=1), "10.0.0.9:24000", "10.0.0.9", False),
        (a_place(me=None), "127.0.0.1:24000", "127.0.0.1", True),
    ],
)
def test_where_to_meet_follows_from_what_the_launcher_says(
    place: Place, meet: str | None, host: str, leads: bool
) -> None:
    found = arrange(place, meet, 5.0)
    assert found is not None
    assert (found.host, found.leads) == (host, leads)
    assert found.ports == ((24000,) if meet else found.ports)
    assert all(23_400 <= port < 24_400 for port in found.ports)


@pytest.mark.parametrize("place", [a_place(size=1), Place(env={}, host="here")])
def test_who_is_alone_meets_nobody(place: Place) -> None:
    assert arrange(place, None, 5.0) is None


@pytest.mark.parametrize("meet", ["", "node-0", "node-0:", "node-0:99999", "http://node-0:1", "a b:1", "x" * 100_000])
def test_a_meeting_place_that_is_none_is_a_mistake_of_the_call(meet: str) -> None:
    if meet.startswith("http"):
        assert arrange(a_place(), meet, 5.0) is not None
        return
    with pytest.raises(UserError):
        arrange(a_place(), meet, 5.0)


def test_all_processes_of_a_job_come_to_the_same_ports_with_the_same_token() -> None:
    first, second = arrange(a_place(me=0), None, 5.0), arrange(a_place(me=1), None, 5.0)
    assert first is not None and second is not None
    assert (first.ports, first.token) == (second.ports, second.token)


def test_processes_meet_even_where_they_disagree_on_the_cluster() -> None:
    first, second = arrange(a_place(size=4), None, 5.0), arrange(a_place(size=5, me=1), None, 5.0)
    assert first is not None and second is not None
    assert (first.ports, first.token) == (second.ports, second.token)


@pytest.mark.parametrize("other", [a_place(job="8"), a_place(meeting="node-1:29500"), a_place(KEEPSTEP_TOKEN="secret")])
def test_other_jobs_have_another_token(other: Place) -> None:
    first, second = arrange(a_place(), None, 5.0), arrange(other, None, 5.0)
    assert first is not None and second is not None
    assert first.token != second.token
    assert "secret" not in repr(second)


def test_a_port_that_is_taken_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = (int(other.getsockname()[1]), free_port())
        desk = open_desk(an_appointment(ports), HELLO, no_loss)
        assert isinstance(desk, Desk)
        try:
            came = join(an_appointment(ports), HELLO)
            assert isinstance(came, ProvenConnection)
            assert desk.wait() < 5
            assert [guest.rank for guest in desk.guests] == [1]
            came.close()
        finally:
            desk.close()


def test_where_every_port_is_taken_there_is_no_desk() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert open_desk(an_appointment((int(other.getsockname()[1]),)), HELLO, no_loss) is None


def test_who_also_says_that_it_is_rank_0_joins_the_first() -> None:
    ports = (free_port(),)
    desk = open_desk(an_appointment(ports), HELLO, no_loss)
    assert isinstance(desk, Desk)
    try:
        second = open_desk(an_appointment(ports), {**HELLO, "rank": 0}, no_loss)
        assert isinstance(second, ProvenConnection)
        desk.wait()
        assert [guest.rank for guest in desk.guests] == [0]
        assert desk.missing() == (1,)
        second.close()
    finally:
        desk.close()


@pytest.mark.parametrize(
    "hello", [{}, {"rank": "1"}, {**HELLO, "rank": -1}, {**HELLO, "addresses": 5}, {**HELLO, "rank": [[]]}]
)
def test_who_does_not_introduce_itself_is_not_let_in(hello: dict[str, object]) -> None:
    ports = (free_port(),)
    desk = open_desk(an_appointment(ports), HELLO, no_loss)
    assert isinstance(desk, Desk)
    try:
        assert isinstance(join(an_appointment(ports, wait=0.3), hello), ProbeContact)
        assert desk.guests == []
    finally:
        desk.close()


def test_a_joiner_says_why_it_does_not_get_there() -> None:
    with socket.create_server(("127.0.0.1", 0)):
        refused = join(an_appointment((free_port(),), wait=0.3), HELLO)
    assert isinstance(refused, ProbeContact) and refused.reached is Reached.REFUSED
    unknown = Appointment(
        host="no-such-host.invalid", ports=(1,), token=TOKEN, identity="", leads=False, expected=None, wait=0.1
    )
    unresolved = join(unknown, HELLO)
    assert isinstance(unresolved, ProbeContact) and unresolved.reached is Reached.UNRESOLVED


def test_a_check_with_another_token_is_a_stranger() -> None:
    ports = (free_port(),)
    desk = open_desk(an_appointment(ports), HELLO, no_loss)
    assert isinstance(desk, Desk)
    try:
        found = join(an_appointment(ports, wait=0.3, token=b"another"), HELLO)
        assert isinstance(found, ProbeContact) and found.reached is Reached.STRANGER
    finally:
        desk.close()


def knocks(stack: contextlib.ExitStack, port: int, count: int) -> list[socket.socket]:
    """Strangers who connect and say nothing; returned once the listener has greeted the last one."""
    found = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(count)]
    assert found[-1].recv(len(GREETING)) == GREETING
    return found


@pytest.mark.parametrize("strangers", [80, pytest.param(900, marks=pytest.mark.long)])
def test_strangers_who_say_nothing_keep_no_rank_out_of_the_meeting(strangers: int) -> None:
    ports = (free_port(),)
    desk = open_desk(an_appointment(ports), HELLO, no_loss)
    assert isinstance(desk, Desk)
    try:
        with contextlib.ExitStack() as stack:
            knocks(stack, ports[0], strangers)
            came = join(an_appointment(ports, wait=2.0), HELLO)
            assert isinstance(came, ProvenConnection), came
            desk.wait()
            assert [guest.rank for guest in desk.guests] == [1]
            came.close()
    finally:
        desk.close()


def test_the_stranger_who_came_first_goes_where_too_many_wait() -> None:
    def serve(connection: ProvenConnection, address: str) -> bool:
        connection.send({"hello": "you"})
        return False

    listening = socket.create_server(("127.0.0.1", 0))
    listener = ProvenListener(TOKEN, serve, most=1, most_unproven=3)
    listener.add(listening)
    try:
        with contextlib.ExitStack() as stack:
            first, *others = knocks(stack, listening.getsockname()[1], 4)
            assert len(first.recv(100)) == NONCE + len(GREETING) and first.recv(1) == b"", "it was greeted, then closed"
            raw = stack.enter_context(socket.create_connection(listening.getsockname(), 5))
            assert call(raw, TOKEN).receive(5) == {"hello": "you"}
            others[-1].settimeout(0.01)
            with pytest.raises(TimeoutError):
                while others[-1].recv(100):
                    pass
    finally:
        listener.close()


def test_a_listener_that_runs_out_of_descriptors_goes_on_when_there_are_some() -> None:
    """A stand-in for the kernel: `accept` fails once, as it does when a process has no descriptor left."""
    taken: list[ProvenConnection] = []

    def serve(connection: ProvenConnection, address: str) -> bool:
        taken.append(connection)
        return True

    class Exhausted:
        def __init__(self, inner: socket.socket) -> None:
            self._inner, self._failed = inner, False

        def accept(self) -> tuple[socket.socket, object]:
            if not self._failed:
                self._failed = True
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return self._inner.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    listening = socket.create_server(("127.0.0.1", 0))
    listener = ProvenListener(TOKEN, serve, most=1)
    listener.add(Exhausted(listening))  # type: ignore[arg-type]
    try:
        with socket.create_connection(listening.getsockname(), 5) as raw:
            call(raw, TOKEN)
    finally:
        listener.close()
        for each in taken:
            each.close()


NASTY = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["a..b:1", "[::1", "\x00:5", "-oProxyCommand=x:1", "x" * 300 + ":1", "é.example:7", "1:2:3"]),
)


@settings(max_examples=80, deadline=None)
@given(NASTY, NASTY, NASTY, st.text(max_size=40))
def test_whatever_the_variables_hold_an_appointment_is_made_or_refused_without_a_traceback(
    host: str, meeting: str, job: str, token: str
) -> None:
    tasks = (Task(rank=0, index=0, host=host), Task(rank=1, index=1))
    cluster = Cluster(said_by="torchrun", tasks=tasks, me=1, meeting=meeting, job=job)
    made = arrange(Place(env={"KEEPSTEP_TOKEN": token}, host="here", cluster=cluster), None, 0.0)
    if made is not None:
        assert all(0 < port < 65536 for port in made.ports)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "\x00", "é" * 70, "no such host", ""])
def test_a_name_that_cannot_be_one_is_unresolved(host: str) -> None:
    made = Appointment(host=host, ports=(1,), token=TOKEN, identity="", leads=False, expected=None, wait=0.0)
    found = join(made, HELLO)
    assert isinstance(found, ProbeContact)
    assert found.reached in (Reached.UNRESOLVED, Reached.REFUSED), host
