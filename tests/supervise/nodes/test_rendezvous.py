# SPDX-License-Identifier: Apache-2.0
"""Who takes part in the next attempt: a node that only ends its ranks keeps its place, whatever spares there are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from dataclasses import replace
from pathlib import Path

import pytest

from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.interface import Connection, ConnectionLost
from keepstep.supervise.nodes.lead import rendezvous
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.lead.membership import Membership
from keepstep.supervise.nodes.lead.nodes_preflight import FirstLook
from keepstep.supervise.nodes.lead.rendezvous import Gathering
from keepstep.supervise.start.layout import Layout
from tests.supervise.nodes.connecting import until


class Crew:
    """Two nodes and a spare. Attempt 0 ran on nodes 0 and 1."""

    def __init__(self, folder: Path) -> None:
        self.hub = hub = Hub(None)
        self.said: list[str] = []
        self.leader = Leader(hub, Membership(run="r", version="1", nodes=3, now=now(), first=True), print)
        self.gathering = Gathering(
            leader=self.leader,
            least=2,
            most=2,
            say=self.said.append,
            interrupted=lambda: None,
            interrupt=lambda signal: None,
            hurry=lambda: False,
            first_look=FirstLook(self.leader, print, on=False),
            cwd=folder,
            first_s=20.0,
            again_s=20.0,
        )
        self.agents: dict[int, Connection] = {}
        self._beats = 0
        self._folder = folder

    def comes(self, node: int) -> None:
        self.agents[node] = self.hub.local()
        self.agents[node].send(
            said.Hello(
                **{"run": "r", "node": node, "host": f"h{node}", "address": None, "version": "1", "python": "3.11"},
                **{"program": "p", "per_node": 1, "agent": f"a{node}"},
            )
        )
        self.beat(node, said.State.IDLE, attempt=said.NEVER)

    def begin(self) -> None:
        for node in range(3):
            self.comes(node)
        assert self.gathered() == [0, 1]
        self.leader.open(0, self._folder, Layout(), [0, 1])
        for node in (0, 1):
            self.beat(node, said.State.RUNS)

    def beat(self, node: int, state: said.State, attempt: int = 0) -> None:
        self._beats += 1
        self.agents[node].send(said.Beat(number=self._beats, attempt=attempt, state=state))
        until(lambda: (each := self.leader.member(node)) is not None and each.leased and each.state is state)

    def gathered(self) -> list[int]:
        places = self.gathering.gather()
        assert places is not None
        return [place.node for place in places]


@pytest.fixture
def crew(arriving: Crew) -> Crew:
    arriving.begin()
    return arriving


@pytest.fixture
def arriving(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path)
    yield made
    for agent in made.agents.values():
        with contextlib.suppress(ConnectionLost):
            agent.send(said.Bye(status=0))
        agent.close()
    made.leader.close(0)


def ends(crew: Crew) -> None:
    """The agent has said that its ranks are gone, and its next beat says so too, half a second later."""
    crew.beat(1, said.State.ENDS)
    crew.agents[1].send(said.Ended(attempt=0))


def connects_again(crew: Crew) -> None:
    crew.beat(1, said.State.IDLE)
    crew.agents[1].close()


@pytest.mark.parametrize("busy", [ends, connects_again])
def test_a_node_that_will_be_back_at_once_is_not_replaced_by_a_spare(crew: Crew, busy: Callable[[Crew], None]) -> None:
    crew.beat(0, said.State.IDLE)
    busy(crew)
    until(lambda: not crew.leader.blocking() and crew.leader.present() == [0, 2])
    with ThreadPoolExecutor() as pool:
        gathered = pool.submit(crew.gathered)
        with pytest.raises(TimeoutError):
            gathered.result(0.5)
        for node in (0, 2):
            crew.beat(node, said.State.IDLE, attempt=0)
        if busy is connects_again:
            crew.agents[1] = crew.leader._hub.local()
            crew.agents[1].send(
                said.Hello(
                    **{"run": "r", "node": 1, "host": "h1", "address": None, "version": "1", "python": "3.11"},
                    **{"program": "p", "per_node": 1, "agent": "a1", "call": 1, "attempt": 0},
                )
            )
        crew.beat(1, said.State.IDLE)
        assert gathered.result(5.0) == [0, 1]


def test_a_node_that_does_not_come_back_is_replaced(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "MORE_S", 0.5)
    crew.beat(0, said.State.IDLE)
    connects_again(crew)
    until(lambda: crew.leader.present() == [0, 2])
    assert crew.gathered() == [0, 2]


def test_more_nodes_than_needed_are_waited_for_as_long_as_asked_and_that_is_said(crew: Crew) -> None:
    words: list[str] = []
    for node in range(2):
        crew.beat(node, said.State.IDLE)
    first = replace(crew.gathering, most=4, say=words.append, more_s=60.0, _before=None)
    with ThreadPoolExecutor() as pool:
        gathered = pool.submit(first.gather)
        until(lambda: bool(words))
        with pytest.raises(TimeoutError):
            gathered.result(0.3)
        first.more_s = 0.1
        places = gathered.result(5.0)
    assert places is not None and [place.node for place in places] == [0, 1, 2]
    assert words[0] == "3 of up to 4 nodes came, which is enough: waiting up to 60 s for more (--wait-for-more)"


def test_a_node_that_the_engine_takes_away_is_not_waited_for(crew: Crew) -> None:
    crew.beat(0, said.State.IDLE)
    crew.beat(1, said.State.IDLE)
    crew.gathering.leave(1, "Slurm", "takes it")
    assert crew.gathered() == [0, 2]


def test_the_spare_is_the_last_host_of_the_list_whoever_comes_first(arriving: Crew) -> None:
    arriving.comes(2)
    arriving.comes(1)
    with ThreadPoolExecutor() as pool:
        gathered = pool.submit(arriving.gathered)
        with pytest.raises(TimeoutError):
            gathered.result(0.5)
        arriving.comes(0)
        assert gathered.result(20.0) == [0, 1]
    assert arriving.said == ["spare: h2"]


def test_a_host_that_does_not_come_is_replaced_and_that_is_said(
    arriving: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "IN_ORDER_S", 0.2)
    arriving.comes(0)
    arriving.comes(2)
    assert arriving.gathered() == [0, 2]
    assert arriving.said == ["node 1 did not come in time: h2 takes part instead"]
