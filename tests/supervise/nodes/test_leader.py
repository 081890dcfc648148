# SPDX-License-Identifier: Apache-2.0
"""The leader's desk: its goodbye reaches every agent that lives, and an attempt begins with no old news."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.agent.lease import SILENT_S
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.interface import Connection, ConnectionLost
from keepstep.supervise.nodes.lead.leader import LAST_S, Leader, NodeTold
from keepstep.supervise.nodes.lead.membership import Expired, Membership, Returned, SilentNode
from keepstep.supervise.start.layout import Layout
from tests.supervise.nodes.connecting import until

SOON_S = 20.0
HELLO = said.Hello(
    **{"run": "r", "node": 0, "host": "h", "address": None, "version": "1", "python": "3.11", "program": "p"},
    per_node=1,
    agent="a",
)


class Desk:
    """A leader, and connections to it from this process."""

    def __init__(self) -> None:
        self.hub = Hub(None)
        self.leader = Leader(self.hub, Membership(run="r", version="1", nodes=2, now=now(), first=True), print)
        self.closing = threading.Thread(target=self.leader.close, args=(3,))

    def agent(self, call: int = 0) -> Connection:
        """An agent that was welcomed."""
        connection = self.hub.local()
        connection.send(replace(HELLO, call=call))
        assert isinstance(connection.receive(SOON_S), said.Welcome)
        return connection


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    if desk.closing.ident is None:
        desk.closing.start()
    desk.closing.join(SOON_S)


def test_the_leader_stays_until_an_agent_has_taken_its_goodbye(desk: Desk) -> None:
    connection = desk.agent()
    desk.closing.start()
    assert connection.receive(SOON_S) == said.Bye(status=3)
    time.sleep(0.5)
    assert desk.closing.is_alive()
    connection.send(said.Bye(status=3))
    connection.close()
    began = time.monotonic()
    desk.closing.join(SOON_S)
    assert not desk.closing.is_alive() and time.monotonic() - began < SILENT_S / 2


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_an_agent_that_connects_again_just_now_is_told_too(desk: Desk, when: str) -> None:
    """Its connection was cut, whether or not our goodbye was on its way: only an answer says that it was taken."""
    connection = desk.agent()
    if when == "before":
        connection.close()
        until(lambda: not desk.leader._nodes)
    desk.closing.start()
    if when == "after":
        until(lambda: desk.leader._status is not None)
    connection.close()
    until(lambda: not desk.leader._nodes)
    time.sleep(0.3)
    connection = desk.agent(call=1)
    assert connection.receive(SOON_S) == said.Bye(status=3)
    connection.send(said.Bye(status=3))
    connection.close()


def test_an_agent_that_is_gone_is_not_waited_for_long(desk: Desk) -> None:
    desk.agent().close()
    began = time.monotonic()
    desk.leader.close(0)
    assert time.monotonic() - began < LAST_S
    desk.closing = threading.Thread(target=lambda: None)


def test_who_was_silent_while_nodes_were_awaited_is_forgotten_when_an_attempt_begins(
    desk: Desk, tmp_path: Path
) -> None:
    """Hundreds of agents that start on one host may be silent for long, more than once, before all are there."""
    connection = desk.agent()
    connection.send(said.Beat(number=1, attempt=said.NEVER, state=said.State.IDLE))
    assert connection.receive(SOON_S) == said.Heard(number=1)
    interrupted = NodeTold(0, said.Happened(attempt=said.NEVER, what="interrupted", signal=15))
    with desk.leader._changed:
        desk.leader._news += [
            SilentNode(node=0, since_s=2.1),
            Expired(node=0),
            Returned(node=0, away_s=20.0),
            interrupted,
        ]
    desk.leader.open(0, tmp_path, Layout(), [0])
    assert desk.leader.news() == [interrupted]
    connection.close()


def test_what_cannot_happen_is_no_news(desk: Desk) -> None:
    """An agent of another make, or one gone mad: the supervisor decides only upon what it knows."""
    connection = desk.agent()
    connection.send(said.Happened(attempt=0, what="ascended"))
    connection.send(said.Happened(attempt=0, what="exited"))
    until(lambda: desk.leader._news)
    assert [each for each in desk.leader.news() if isinstance(each, NodeTold)] == [
        NodeTold(0, said.Happened(attempt=0, what="exited"))
    ]
    connection.close()


def test_a_leader_that_leads_no_longer_ends_nobody(desk: Desk) -> None:
    """Another one leads now, and the agents look for it: an old leader's goodbye would end a run that goes on."""
    here = desk.agent()
    desk.leader._peers.update(dict.fromkeys(desk.leader._peers, "node-1"))
    desk.leader.supersede("another process leads")
    assert desk.leader._membership.hello(0, HELLO, now(), connection="c") == said.Refused(
        why="the process there does not lead the run now", again=True
    )
    here.send(said.Beat(number=1, attempt=said.NEVER, state=said.State.IDLE))
    desk.closing.start()
    with pytest.raises(ConnectionLost):
        while (message := here.receive(SOON_S)) is not None:
            assert not isinstance(message, said.Bye | said.Heard | said.Start)
    here.close()
