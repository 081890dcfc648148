# SPDX-License-Identifier: Apache-2.0
"""An agent's contact with the leader, over connections in memory: this test is the leader."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator

import pytest

from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.heartbeat import LeaderContact, Vitals
from keepstep.supervise.nodes.connection.in_memory import pair
from keepstep.supervise.nodes.connection.interface import Connection
from keepstep.supervise.start.layout import Layout

SOON_S = 20.0


class Desk:
    """Takes the agent's connections, one after the other."""

    def __init__(self) -> None:
        self.lease_s: float | None = None
        self.calls: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self.held: list[float | None] = []
        self.contact = LeaderContact(self.call, self.hello, self.held.append)

    def call(self) -> Connection:
        here, there = pair()
        self.calls.put(there)
        return here

    @staticmethod
    def hello(attempt: int, state: said.State) -> said.Hello:
        return said.Hello(
            **{"run": "r", "node": 1, "host": "h", "address": None, "version": "1", "python": "3.11", "program": "p"},
            per_node=1,
            attempt=attempt,
            state=state,
        )

    def connected(self) -> Connection:
        """The next connection, once a beat was answered on it."""
        connection = self.calls.get(timeout=SOON_S)
        assert isinstance(connection.receive(SOON_S), said.Hello)
        connection.send(said.Welcome(lease_s=self.lease_s))
        beat = connection.receive(SOON_S)
        assert isinstance(beat, said.Beat)
        connection.send(said.Heard(number=beat.number))
        assert until(lambda: not self.contact.is_over)
        return connection


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.contact.close()


def until(condition: Callable[[], object]) -> bool:
    ends = time.monotonic() + SOON_S
    while not condition() and time.monotonic() < ends:
        time.sleep(0.01)
    return bool(condition())


def start(attempt: int) -> said.Start:
    return said.Start(attempt=attempt, layout=Layout())


def test_a_start_that_comes_twice_is_one(desk: Desk) -> None:
    connection = desk.connected()
    connection.send(start(0))
    connection.send(start(0))
    connection.send(said.Hold(attempt=0, seconds=1.0))
    assert until(lambda: said.Hold(attempt=0, seconds=1.0) in desk.contact.inbox)
    assert [each for each in desk.contact.inbox if isinstance(each, said.Start)] == [start(0)]
    assert desk.contact.may_start(start(0))


def test_a_start_that_was_accepted_is_good_also_when_the_connection_is_made_anew_before_the_agent_gets_to_it(
    desk: Desk,
) -> None:
    """The hello on the new connection says that it runs: the leader counts on that, and does not ask again."""
    connection = desk.connected()
    connection.send(start(0))
    assert until(lambda: start(0) in desk.contact.inbox)
    connection.close()
    again = desk.calls.get(timeout=SOON_S)
    hello = again.receive(SOON_S)
    assert isinstance(hello, said.Hello)
    assert (hello.attempt, hello.state) == (0, said.State.RUNS)
    assert desk.contact.may_start(start(0))


def test_a_start_that_was_lost_with_a_connection_can_come_on_the_next_one(desk: Desk) -> None:
    connection = desk.connected()
    connection.close()
    again = desk.connected()
    again.send(start(0))
    assert until(lambda: start(0) in desk.contact.inbox)
    assert desk.contact.may_start(start(0))


def test_an_answer_right_behind_it_does_not_make_a_start_good_that_came_without_a_lease(desk: Desk) -> None:
    """Both were held back on their way: the leader may have stopped to wait for this node since."""
    desk.lease_s = 1.0
    connection = desk.connected()
    assert until(lambda: desk.contact.is_over)
    beat = connection.receive(SOON_S)
    while isinstance(newer := connection.receive(0.05), said.Beat):
        beat = newer
    connection.send(start(0))
    assert isinstance(beat, said.Beat)
    connection.send(said.Heard(number=beat.number, lease_s=20.0))
    assert until(lambda: not desk.contact.is_over)
    assert start(0) in desk.contact.inbox
    assert not desk.contact.may_start(start(0))
    assert desk.contact.attempt == 0, "the attempt is named as one that is over here"
    assert desk.contact.vitals.state is said.State.IDLE


def test_a_start_whose_lease_ends_before_the_agent_gets_to_it_starts_nothing(desk: Desk) -> None:
    desk.lease_s = 1.5
    connection = desk.connected()
    connection.send(start(0))
    assert until(lambda: start(0) in desk.contact.inbox)
    assert desk.contact.vitals.state is said.State.RUNS
    assert until(lambda: desk.contact.is_over)
    assert not desk.contact.may_start(start(0))
    assert desk.contact.vitals.state is said.State.IDLE


def test_an_attempt_that_runs_is_named_on_a_new_connection(desk: Desk) -> None:
    connection = desk.connected()
    connection.send(start(3))
    assert until(lambda: start(3) in desk.contact.inbox)
    assert desk.contact.may_start(start(3))
    connection.close()
    hello = desk.calls.get(timeout=SOON_S).receive(SOON_S)
    assert isinstance(hello, said.Hello)
    assert (hello.attempt, hello.state) == (3, said.State.RUNS)


def test_a_lease_that_ended_is_over_for_its_ranks_also_when_an_answer_comes_later(desk: Desk) -> None:
    """The reaper has ended them: they must not be reported as killed by someone else."""
    desk.lease_s = 1.5
    connection = desk.connected()
    connection.send(start(0))
    assert until(lambda: start(0) in desk.contact.inbox)
    assert desk.contact.may_start(start(0)) and not desk.contact.is_over
    assert until(lambda: desk.contact.is_over)
    desk.lease_s = 20.0
    connection = desk.calls.get(timeout=SOON_S) if not desk.calls.empty() else connection
    while isinstance(message := connection.receive(SOON_S), said.Message):
        if isinstance(message, said.Hello):
            connection.send(said.Welcome(lease_s=desk.lease_s))
        elif isinstance(message, said.Beat):
            connection.send(said.Heard(number=message.number))
            if message.number > 5:
                break
    assert desk.contact.is_over
    desk.contact.vitals = Vitals()
    connection.send(start(1))
    assert until(lambda: start(1) in desk.contact.inbox)
    assert desk.contact.may_start(start(1)) and not desk.contact.is_over
