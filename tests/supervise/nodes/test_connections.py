# SPDX-License-Identifier: Apache-2.0
"""What every connection does, whether it leads over the network, through pipes, or to the same process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.connection import interface, queue
from keepstep.supervise.nodes.connection.dial import ThreadedConnection, connect, over_pipe
from keepstep.supervise.nodes.connection.framing import Lines
from keepstep.supervise.nodes.connection.interface import CannotConnect, Connection, ConnectionLost, Got, Lost
from keepstep.supervise.start.layout import Layout, Seat
from tests.supervise.nodes.connecting import (
    KINDS,
    SOON_S,
    beat,
    hello,
    hub_with,
    opened,
    parcel,
    pipes,
    readable,
    received,
    until,
    why_lost,
)

Ends = tuple[Connection, Connection]


def made_of(hint: Any) -> st.SearchStrategy[Any]:
    """Everything that a field of a message may hold: numbers are finite, and have less than 65 bits."""
    inner = typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return st.builds(hint, **{name: made_of(each) for name, each in typing.get_type_hints(hint).items()})
    if typing.get_origin(hint) is tuple and inner[1] is not Ellipsis:
        return st.tuples(*map(made_of, inner))
    if typing.get_origin(hint) is tuple:
        return st.lists(made_of(inner[0]), max_size=3).map(tuple)
    if inner:
        return st.one_of([made_of(each) if each is not type(None) else st.none() for each in inner])
    if hint is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    return st.integers(1 - 2**64, 2**64 - 1) if hint is int else st.from_type(hint)


WHATEVER = st.one_of(*map(made_of, messages._KINDS.values()))


@pytest.fixture(params=KINDS)
def both(request: pytest.FixtureRequest) -> Iterator[Ends]:
    with KINDS[request.param]() as (agent, leader):
        agent.send(hello())
        assert received(leader) == hello()
        leader.send(messages.Welcome())
        assert received(agent) == messages.Welcome()
        yield agent, leader


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=set(Phase) - {Phase.explain})
def test_every_kind_of_message_survives_the_way_in_pieces_of_any_size(data: st.DataObject) -> None:
    sent = data.draw(st.lists(WHATEVER, max_size=4))
    text = b"".join(map(messages.encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    lines, found = Lines(), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += [message for message, _ in lines.feed(text[start:end])]
    assert found == sent
    assert lines.wrong is None


def test_every_kind_of_message_arrives_in_order_both_ways(both: Ends) -> None:
    some = [_example(kind) for kind in messages._KINDS.values()]
    for here, there in (both, both[::-1]):
        for each in some:
            here.send(each)
        arrived = [received(there) for _ in some]
        assert sorted(map(repr, arrived)) == sorted(map(repr, some))
        for lane in (True, False):
            assert [each for each in arrived if interface.evidence(each) is lane] == [
                each for each in some if interface.evidence(each) is lane
            ]


def test_beats_pass_parcels_but_what_concludes_evidence_does_not(both: Ends) -> None:
    agent, leader = both
    ended, all_wait = messages.Ended(attempt=1), threading.Event()
    if isinstance(agent, ThreadedConnection):  # else the other side may have all evidence before there is a beat
        agent._thread.soon(all_wait.wait)  # type: ignore[arg-type]
    for number in range(8):
        agent.send(parcel(number, 1_000_000))
    agent.send(ended)
    agent.send(beat(1))
    all_wait.set()
    arrived = [received(leader) for _ in range(10)]
    assert arrived.index(beat(1)) < 8
    assert [each for each in arrived if each != beat(1)] == [*(parcel(n, 1_000_000) for n in range(8)), ended]


def test_what_was_sent_before_a_close_arrives_and_then_the_loss_stays_known(both: Ends) -> None:
    agent, leader = both
    for number in range(50):
        agent.send(parcel(number, 20_000))
    agent.send(messages.Ended(attempt=1))
    closer = threading.Thread(target=agent.close, args=(SOON_S,))
    closer.start()
    assert [received(leader) for _ in range(51)][-1] == messages.Ended(attempt=1)
    assert why_lost(leader) == "the other side closed the connection"
    closer.join(SOON_S)
    assert not closer.is_alive()
    with pytest.raises(ConnectionLost):
        leader.send(beat(1))
    with pytest.raises(ConnectionLost):
        agent.send(beat(1))
    with pytest.raises(ConnectionLost):
        agent.receive(0)


@pytest.mark.parametrize("kind", ["memory", "IPv4", "pipes"])
def test_a_lost_connection_says_so_again_and_again(kind: str) -> None:
    with KINDS[kind]() as (agent, leader):
        leader.close()
        assert readable(agent, SOON_S)
        for _ in range(3):
            with pytest.raises(ConnectionLost):
                agent.receive(1)
            assert readable(agent)


def test_the_descriptor_is_readable_while_something_waits_and_only_then(both: Ends) -> None:
    agent, leader = both
    for here, there in (both, (leader, agent)):
        assert not readable(there)
        here.send(beat(1))
        here.send(beat(2))
        assert readable(there, SOON_S)
        received(there)
        assert readable(there, SOON_S)
        received(there)
        assert not readable(there)
        assert there.receive(0) is None
        assert there.receive(0.01) is None


def test_receive_wakes_as_soon_as_a_message_comes(both: Ends) -> None:
    agent, leader = both
    waiter: list[messages.Message] = []
    waits = threading.Thread(target=lambda: waiter.append(received(leader)))
    waits.start()
    agent.send(beat(7))
    waits.join(SOON_S)
    assert waiter == [beat(7)]


def test_a_message_that_is_too_large_is_refused_here_and_the_connection_lives(both: Ends) -> None:
    agent, leader = both
    with pytest.raises(messages.BadMessage, match="too large"):
        agent.send(parcel(1, messages.LARGEST))
    almost = parcel(2, messages.LARGEST - 200)
    agent.send(almost)
    assert received(leader) == almost


@pytest.mark.parametrize("kind", ["memory", "IPv4", "pipes"])
def test_one_who_does_not_read_is_cut_off_and_delays_nobody(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # this process reads, so the reader is told that its inbox is crowded: it then leaves the rest to the sender
    monkeypatch.setattr(queue, "MOST_WAITING", 1 << 20)
    with KINDS[kind]() as (agent, leader):
        leader.send(messages.Welcome())
        received(agent)
        agent.send(hello())
        longest, most = 0.0, 0
        with pytest.raises(ConnectionLost, match="does not read"):
            for number in range(200):
                begun = time.thread_time()
                agent.send(parcel(number, 1_000_000))
                longest, most = max(longest, time.thread_time() - begun), max(most, agent.queued)
        assert most <= interface.MOST_QUEUED + messages.LARGEST
        assert longest < 0.5, "the sender worked, rather than queue"
        assert received(leader) == hello(), "what came before is not lost"


def test_a_crowded_inbox_lets_a_connection_wait_and_then_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_WAITING", 2 << 20)
    with hub_with() as (hub, known):
        busy = connect(known, "127.0.0.1", hub.address[1], SOON_S)
        one = opened(hub).connection
        for number in range(25):
            busy.send(parcel(number, 1_000_000))
        until(lambda: hub._inbox.size > 2 << 20 and bool(hub._thread._paused))
        calm = connect(known, "127.0.0.1", hub.address[1], SOON_S)
        calm.send(beat(1))
        until(lambda: len(hub._inbox._lanes._first) == 2)
        two = opened(hub).connection
        assert hub.receive(SOON_S) == Got(two, beat(1)), "others are heard, and first"
        arrived = [hub.receive(SOON_S) for _ in range(25)]
        assert arrived == [Got(one, parcel(number, 1_000_000)) for number in range(25)]
        busy.close()
        calm.close()


def test_a_closed_connection_leaves_no_thread_and_no_descriptor() -> None:
    for both_ends in KINDS.values():  # whatever is made once, is made here
        with both_ends():
            pass
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for both_ends in KINDS.values():
        with both_ends() as (agent, leader):
            readable(agent)
            leader.close(0)
    until(lambda: threading.active_count() <= threads)
    until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


def test_a_file_is_no_pipe_and_the_hub_survives_the_attempt(tmp_path: Path) -> None:
    with hub_with() as (hub, known), open(tmp_path / "x", "wb") as file, open(os.devnull) as null:
        for make in (over_pipe, hub.over_pipe):
            with pytest.raises(CannotConnect, match="needs pipes"):
                make(null.fileno(), file.fileno(), "node-1")
        agent = connect(known, "127.0.0.1", hub.address[1], SOON_S)
        opened(hub)
        agent.close()


def test_the_leader_cuts_off_its_own_agent_as_any_other() -> None:
    with hub_with() as (hub, _):
        agent = hub.local()
        number = opened(hub).connection
        sent = 0
        while hub.send(number, parcel(1, 1_000_000)):
            sent += 1
            assert sent < 64
        lost = hub.receive(SOON_S)
        assert isinstance(lost, Lost) and "does not read" in lost.why
        assert why_lost(agent) == "it was cut off, because it did not read"
        agent.close()


def test_text_before_the_first_message_on_a_pipe_is_skipped() -> None:
    there, here = os.pipe(), os.pipe()
    leader = over_pipe(there[0], here[1], "node-1")
    os.write(there[1], b'Welcome to node-1\n{"kind": "beat"}\n\xff\x00\n$ ' + messages.encode(hello()))
    assert received(leader) == hello()
    os.write(there[1], messages.encode(beat(1)))
    assert received(leader) == beat(1)
    os.write(there[1], b"a print to stdout\n")
    assert "cannot be read" in why_lost(leader)
    leader.close()
    os.close(there[1])
    os.close(here[0])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"bash: keepstep: command not found\n", "it printed: bash: keepstep: command not found"),
        (b"x" * 100_000, "within 64 KiB of other text; it printed: xxx"),
        (b"much\n" * 20_000, "within 64 KiB of other text; it printed: much much"),
        (b"", "ended before an agent answered"),
    ],
)
def test_a_pipe_without_an_agent_says_what_was_printed(text: bytes, why: str) -> None:
    there, here = os.pipe(), os.pipe()
    leader = over_pipe(there[0], here[1], "node-1")
    with contextlib.suppress(BrokenPipeError), os.fdopen(there[1], "wb", buffering=0) as stream:
        stream.write(text[: 1 << 16])
        stream.write(text[1 << 16 :])
    found = why_lost(leader)
    assert why.split("xxx")[0] in found
    assert len(found) < 400
    leader.close()
    os.close(here[0])


def test_connections_of_one_hub_are_told_apart_and_numbers_are_not_used_again() -> None:
    with hub_with() as (hub, known):
        numbers = []
        for turn in range(3):
            agent = connect(known, "127.0.0.1", hub.address[1], SOON_S)
            numbers.append(opened(hub).connection)
            agent.send(beat(turn))
            assert hub.receive(SOON_S) == Got(numbers[-1], beat(turn))
            agent.close()
            assert hub.receive(SOON_S) == Lost(numbers[-1], "the other side closed the connection")
            assert not hub.send(numbers[-1], messages.Bye(status=0))
        assert len(set(numbers)) == 3


def test_a_hub_that_closes_delivers_its_last_words() -> None:
    with hub_with() as (hub, known):
        agents = [connect(known, "127.0.0.1", hub.address[1], SOON_S) for _ in range(5)]
        numbers = [opened(hub).connection for _ in agents]
        for agent in agents:
            for number in range(200):
                agent.send(beat(number))  # which the hub never reads: a reset must not destroy what it says
        for number in numbers:
            assert hub.send(number, messages.Bye(status=3))
        hub.close(SOON_S)
        for agent in agents:
            assert received(agent) == messages.Bye(status=3)
            assert "closed" in why_lost(agent)
            agent.close()


def test_pipes_work_for_a_thousand_messages_of_mixed_size() -> None:
    with pipes() as (agent, leader):
        agent.send(hello())
        received(leader)
        sent: list[Any] = [parcel(number, number * 37) for number in range(1000)]
        feeder = threading.Thread(target=lambda: [agent.send(each) for each in sent])
        feeder.start()
        assert [received(leader) for _ in sent] == sent
        feeder.join(SOON_S)


def _example(kind: type[messages.Message]) -> messages.Message:
    """The least that a message of this kind can be."""
    return next(each for each in EXAMPLES if type(each) is kind)


EXAMPLES: tuple[messages.Message, ...] = (
    hello(),
    beat(1),
    messages.Ready(attempt=1, ports=(1, 2)),
    messages.Happened(attempt=1, what="exited", exit=messages.Gone(pid=1, at=2.0, signal="SIGSEGV")),
    parcel(1),
    messages.Collected(attempt=1, known=messages.Known(steps=3)),
    messages.Ended(attempt=1),
    messages.Said(text="rank 1 ended"),
    messages.Welcome(attempt=4),
    messages.Refused(why="käse \u2028 \x00"),
    messages.Heard(number=1),
    messages.Prepare(attempt=1, ranks=2),
    messages.Measured(attempt=1, told="{}"),
    messages.Looked(attempt=1, told="[]"),
    messages.Probed(attempt=1, number=2, told="{}"),
    messages.Look(attempt=1, layout=Layout(seats=(), store_port=4, coordinator_port=5)),
    messages.Probe(attempt=1, number=2, asked="{}"),
    messages.Start(
        attempt=1,
        layout=Layout(seats=(Seat(rank=0, host="::1", port=3),), store_port=4, coordinator_port=5),
        variables=(("A", "b"),),
        limits=(("RLIMIT_NOFILE", 4),),
    ),
    messages.Collect(attempt=1),
    messages.Hold(attempt=1, seconds=0.5),
    messages.End(attempt=1, what="exited"),
    messages.Bye(status=0),
    messages.Put(attempt=1, keys=(("a", "b"),)),
    messages.Asked(attempt=1, name="pause", numbers=(("step", 3),)),
)
