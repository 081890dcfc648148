# SPDX-License-Identifier: Apache-2.0
"""What the leader decides first when several things are reported at once. No node answers here; news is put by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.executor import Applied
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.lead.joint_attempt import JointAttempt
from keepstep.supervise.nodes.lead.leader import Leader, NodeTold
from keepstep.supervise.nodes.lead.membership import Expired, Membership
from keepstep.supervise.nodes.lead.nodes_preflight import FirstLook
from keepstep.supervise.nodes.lead.placement import NodePlace
from keepstep.supervise.nodes.lead.rendezvous import Gathering


@pytest.fixture
def world(tmp_path: Path) -> Iterator[JointAttempt]:
    """Of three nodes that have just gone silent."""
    heard = now() - 3.0
    membership = Membership(run="r", version="1", nodes=3, now=heard, first=True)
    for node in range(3):
        hello = said.Hello(
            **{"run": "r", "node": node, "host": f"h{node}", "address": None, "version": "1", "python": "3.11"},
            program="p",
            per_node=1,
        )
        assert isinstance(membership.hello(node, hello, heard, connection=str(node)), said.Welcome)
    leader = Leader(Hub(None), membership, print)
    signals: list[int | None] = []
    gathering = Gathering(
        leader=leader,
        least=2,
        most=3,
        say=print,
        interrupted=lambda: signals[-1] if signals else None,
        interrupt=signals.append,
        hurry=lambda: False,
        first_look=FirstLook(leader, print, on=False),
        cwd=tmp_path,
        first_s=600.0,
        again_s=60.0,
    )
    world = JointAttempt(0, tmp_path, leader, gathering, Applied(), env={}, may_start_over=False)
    world._nodes = [0, 1, 2]
    leader.news()
    yield world
    leader.close(0)


def stopped(node: int) -> NodeTold:
    return NodeTold(node, said.Happened(attempt=0, what=Happened.SUSPECTED.value, rank=node, quiet_s=9.0))


def test_a_lost_node_goes_before_ranks_that_stopped_because_of_it(world: JointAttempt) -> None:
    world._leader._news = [stopped(0), stopped(1), Expired(node=2)]
    outcome = world.watch()
    assert outcome.happened is Happened.NODE_LOST


def test_what_was_reported_together_with_something_else_is_not_forgotten(world: JointAttempt) -> None:
    world._leader._news = [Expired(node=2), stopped(0)]
    assert world.watch().happened is Happened.NODE_LOST
    assert world.watch().happened is Happened.SUSPECTED


def beat(world: JointAttempt, node: int, steps: int, quiet_s: float) -> None:
    told = said.Beat(number=1, attempt=0, state=said.State.RUNS, steps=steps, quiet_s=quiet_s)
    world._leader._membership.beat(node, told, now(), connection=str(node))


def test_ranks_that_moved_while_the_network_was_looked_at_go_on(world: JointAttempt) -> None:
    for node in range(3):
        beat(world, node, steps=30, quiet_s=9.0)
    world._leader.news()
    world._leader._news = [stopped(0)]
    outcome = world.watch()
    assert outcome.happened is Happened.SUSPECTED
    for node in range(3):
        beat(world, node, steps=30, quiet_s=20.0)
    assert not world.goes_on(outcome)
    beat(world, 2, steps=31, quiet_s=0.1)
    assert world.goes_on(outcome)


def test_ranks_that_stop_on_many_nodes_are_one_decision(world: JointAttempt) -> None:
    world._leader._news = [stopped(node) for node in range(3)]
    assert world.watch().happened is Happened.SUSPECTED
    world._leader._news = [Expired(node=1)]
    assert world.watch().happened is Happened.NODE_LOST


def test_a_signal_that_came_together_with_a_failure_is_not_forgotten(world: JointAttempt) -> None:
    signal_ = said.Happened(attempt=0, what=Happened.INTERRUPTED.value, signal=15)
    world._leader._news = [Expired(node=2), NodeTold(1, signal_)]
    outcome = world.watch()
    assert outcome.happened is Happened.NODE_LOST
    world.end(outcome)
    assert world._gathering.interrupted() == 15


def test_a_node_that_offers_too_few_ports_is_gathered_again(world: JointAttempt) -> None:
    """It would have no place for one of its ranks."""
    places = [NodePlace(node=node, machine=f"h{node}", address="127.0.0.1", ranks=1) for node in (0, 1)]
    for node, ports in ((0, (1000, 1001, 1002)), (1, (1000,))):
        world._leader._answers[said.Ready, node] = said.Ready(attempt=0, ports=ports)
    world._leader.forget = lambda kind: None  # type: ignore[method-assign]
    assert world._seat(places) == [1]
    world._leader._answers[said.Ready, 1] = said.Ready(attempt=0, ports=(1000, 1001, 1002))
    assert world._seat(places) == []
