# SPDX-License-Identifier: Apache-2.0
"""What agents say about their hosts before an attempt is judged and kept with that attempt, and with no other."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from keepstep.model.codec import from_dict
from keepstep.model.facts.cluster import ClusterSeen
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.agent_checks import Lookout, Post
from keepstep.supervise.nodes.agent.heartbeat import now
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.interface import ConnectionLost
from keepstep.supervise.nodes.lead import nodes_preflight
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.lead.membership import Membership
from keepstep.supervise.nodes.lead.nodes_preflight import FILE, FirstLook
from keepstep.supervise.nodes.lead.placement import NodePlace, Roles, seat
from keepstep.supervise.nodes.node_settings import NodePart
from keepstep.supervise.start.launch import plan
from keepstep.supervise.start.layout import Layout
from tests.supervise.nodes.connecting import until


class World:
    """A leader, and three agents that do nothing but look at their hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.mute: set[int] = set()
        """Nodes that do not answer."""
        hub = Hub(None)
        self.leader = Leader(hub, Membership(run="r", version="1", nodes=3, now=now(), first=True), self.said.append)
        self.look = FirstLook(self.leader, self.said.append, on=True)
        self.connections = [hub.local() for _ in range(3)]
        for node in range(3):
            threading.Thread(target=self._serve, args=(node,), daemon=True).start()
        until(lambda: all(self.leader.is_heard(node) for node in range(3)))

    def _serve(self, node: int) -> None:
        connection, job = self.connections[node], plan([sys.executable, "train.py"], ranks=1)
        part = NodePart(node=node, host=f"host-{node}", job=job, env=dict(os.environ))
        lookout = Lookout(
            Post(host=part.host, env=part.env, job_in=part.job_in), lambda each: not connection.send(each), ready=False
        )
        connection.send(
            said.Hello(
                **{"run": "r", "node": node, "host": part.host, "address": None, "version": "1", "python": "3.11"},
                **{"program": "p", "per_node": 1, "agent": f"a{node}"},
            )
        )
        try:
            while True:
                message = connection.receive(20.0)
                if isinstance(message, said.Look) and node not in self.mute:
                    lookout.take(message)
                elif isinstance(message, said.Bye):
                    connection.send(message)
                    connection.close()
        except ConnectionLost:
            lookout.close()

    def attempt(self, number: int, *nodes: int) -> Path:
        """One that failed; its folder."""
        places = [NodePlace(node=node, machine=f"host-{node}", address="127.0.0.1", ranks=1) for node in nodes]
        layout = seat(
            places, Roles(), {node: [1000 * (number + 1) + 10 * node + n for n in range(4)] for node in nodes}
        )
        folder = self.folder / f"attempt-{number}"
        folder.mkdir()
        assert self.look.take(number, layout, nodes)
        self.leader.open(number, folder, layout, nodes)
        answering = set(nodes) - self.mute
        until(lambda: self.leader.answers(said.Looked, number).keys() >= answering)
        self.look.write(folder)
        for node in nodes:
            self.connections[node].send(said.Ended(attempt=number))
        until(lambda: not self.leader.blocking())
        return folder


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print()")
    made = World(tmp_path)
    yield made
    made.leader.close(0)


def described(folder: Path) -> Mapping[int, set[tuple[str, ...]]]:
    """The members of the cluster that each rank was told of."""
    found: dict[int, set[tuple[str, ...]]] = {}
    for each in (from_dict(json.loads(line)) for line in (folder / FILE).read_text().splitlines()):
        if isinstance(each.fact, ClusterSeen) and each.fact.members:
            assert each.rank is not None and each.rank.index is not None
            found.setdefault(each.rank.index, set()).add(each.fact.members)
    return found


Worlds = tuple[tuple[int, ...], ...]
WORLDS: dict[str, Worlds] = {
    "grown": ((0,), (0, 1)),
    "swapped": ((0, 1), (0, 2)),
    "in another order": ((0, 1), (1, 0)),
    "shrunk": ((0, 1), (0,)),
    "restarted": ((0, 1), (0, 1)),
    "all of it": ((0,), (0, 1), (0, 2), (2,)),
}


@pytest.mark.parametrize("worlds", WORLDS.values(), ids=WORLDS)
def test_all_that_is_kept_of_an_attempt_describes_that_attempt(world: World, worlds: Worlds) -> None:
    for number, nodes in enumerate(worlds):
        members = tuple(f"worker:{n}@127.0.0.1:{1000 * (number + 1) + 10 * node}" for n, node in enumerate(nodes))
        found = described(world.attempt(number, *nodes))
        assert found == ({n: {members} for n in range(len(nodes))} if len(nodes) > 1 else found)
        assert found.keys() <= set(range(len(nodes)))
    assert not [words for words in world.said if "cluster description" in words or "world size" in words], world.said


def test_a_host_that_did_not_answer_once_is_not_waited_for_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_preflight, "PATIENCE_S", 4.0)
    world.mute.add(1)
    world.attempt(0, 0, 1)
    assert "check: no answer from host-1 within 4 s; the run starts without it" in world.said
    monkeypatch.setattr(nodes_preflight, "PATIENCE_S", 60.0)
    began = time.monotonic()
    world.attempt(1, 0, 1)
    world.attempt(2, 1, 2)
    assert time.monotonic() - began < 30.0


def test_nothing_is_kept_of_an_attempt_that_no_host_was_asked_about(world: World, tmp_path: Path) -> None:
    world.look.write(tmp_path)
    FirstLook(world.leader, print, on=False).take(0, Layout(), [0])
    assert not (tmp_path / FILE).exists()
