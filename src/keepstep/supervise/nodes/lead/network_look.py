# SPDX-License-Identifier: Apache-2.0
"""The network between the hosts of a run, once an attempt has failed because of network or hardware.

The same tournament as `keepstep check network`, over the agents' own connections. Besides the links that the job uses,
all other addresses of the hosts are tried, and other ports where some are blocked: a remedy needs to know what works.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keepstep.base import foreign_json
from keepstep.check.network.conductor import Conductor, Player, Request, evidence_of, told_apart
from keepstep.check.place import Collected
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed
from keepstep.model.facts.paths import PortsTried
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.agent_checks import WHO
from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.nodes.lead.nodes_preflight import answered
from keepstep.supervise.nodes.lead.reachable import reached_ports
from keepstep.supervise.start.layout import Layout

MOST_S = 30.0
"""For all of it, however many hosts and whatever hangs."""
STEP_S = 12.0
MOST_ROUNDS = 24
"""Of more than 25 hosts, each meets so many others; these find every bad host, and most bad switches."""
SPARE_PORTS = 4
SPREAD = (
    *(2222, 5000, 8500, 10000, 12500, 15500, 18000, 20500, 23000, 25500, 28000, 29500, 31000, 32500),
    *(35000, 38000, 41000, 44000, 47000, 50000, 53000, 56000, 59000, 61500, 64000),
)
"""Ports over the whole range: which of them pass shows which ranges are open."""
USES = {"torch": "store", "jax": "coordinator", "tensorflow": "own"}


@dataclass(frozen=True)
class Hosts:
    """What came of it."""

    seen: tuple[Evidence[Fact], ...] = ()
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The nodes on each host, as the evidence names it."""


class Between:
    """One tournament."""

    def __init__(
        self,
        leader: Leader,
        attempt: int,
        layout: Layout,
        *,
        variables: Mapping[int, Mapping[str, str]],
        addresses: Mapping[int, str],
        frameworks: frozenset[str],
        interrupted: Callable[[], int | None],
    ) -> None:
        """``variables``: what remedies have set on each node. ``addresses``: where the job reaches each node."""
        self._leader, self._attempt, self._layout = leader, attempt, layout
        self._variables, self._addresses = variables, addresses
        self._frameworks, self._interrupted = frameworks, interrupted
        self._until = time.monotonic() + MOST_S
        self._number = 0
        self._gone: set[int] = set()
        self._token = secrets.token_hex(32)
        self._players: list[Player] = []
        self._nodes: list[list[int]] = []

    def hold(self, nodes: Sequence[int]) -> Hosts:
        """Let every host try every other one; nothing if there are not two hosts."""
        self._invite(nodes)
        if len(self._players) < 2:
            self._ask({n: {"do": "stop"} for n in range(len(self._players))}, "")
            return Hosts()
        looked = Collected()
        conductor = Conductor(self._players, self._ask, also_free=self._frameworks != {"tensorflow"})
        found: list[Evidence[Fact]] = []
        try:
            found += conductor.probe_all(looked, MOST_ROUNDS, self._token)
            if any(isinstance(e.fact, LinkProbed) and not e.fact.usable for e in found):
                found += self._other_ports(conductor)
            found += self._other_addresses(conductor, found)
        finally:
            found += conductor.stop()
        names = {player.host: tuple(self._nodes[n]) for n, player in enumerate(self._players)}
        return Hosts(tuple(found), names)

    # --- who takes part

    def _invite(self, nodes: Sequence[int]) -> None:
        answers = self._say(
            {
                node: {
                    "do": WHO,
                    "token": self._token,
                    "rank": next((seat.rank for seat in self._layout.seats if seat.node == node), None),
                    "variables": dict(self._variables.get(node, {})),
                }
                for node in nodes
            }
        )
        machines: dict[str, int] = {}
        for node, told in sorted(answers.items()):
            if "who" not in told:  # its check broke
                continue
            who, addresses = str(told["who"]), tuple(str(each) for each in told["addresses"])
            if who in machines:  # one agent speaks for its host
                self._nodes[machines[who]].append(node)
                continue
            machines[who] = len(self._players)
            rank = next((seat.rank for seat in self._layout.seats if seat.node == node), None)
            name = self._addresses.get(node) or next(iter(addresses), "")
            number = len(self._players)
            self._players.append(
                Player(
                    rank,
                    self._leader.host(node),
                    name,
                    who,
                    addresses,
                    job_ports=self._ports_of(node),
                    is_gone=lambda number=number: number in self._gone,  # type: ignore[misc]
                )
            )
            self._nodes.append([node])
        told_apart(self._players)

    def _ports_of(self, node: int) -> list[int]:
        """Those that the job's framework listens on there, if it is known; else all that were set aside for it."""
        if not self._layout.seats:
            return []
        first, used = self._layout.first.node == node, {USES[each] for each in self._frameworks} or {*USES.values()}
        found = [self._layout.store_port] if first and "store" in used else []
        found += [self._layout.coordinator_port] if first and "coordinator" in used else []
        found += [seat.port for seat in self._layout.seats if seat.node == node] if "own" in used else []
        return found

    # --- other ways

    def _other_ports(self, conductor: Conductor) -> list[Evidence[Fact]]:
        """Ports all over the range, then as many as the ranks need, next to one that passes."""
        found = self._try_ports(conductor, {n: list(SPREAD) for n in range(len(self._players))})
        blocks = {}
        for n, player in enumerate(self._players):
            if good := reached_ports(found).get(player.host):
                processes = sum(seat.node in self._nodes[n] for seat in self._layout.seats)
                base = _roomiest(good)
                blocks[n] = list(range(base, base + processes + len(USES) + SPARE_PORTS))
        return found + self._try_ports(conductor, blocks) if blocks else found

    def _try_ports(self, conductor: Conductor, wanted: Mapping[int, list[int]]) -> list[Evidence[Fact]]:
        told = self._ask({n: {"do": "open", "ports": ports} for n, ports in wanted.items()}, "other ports")
        open_ = {n: [int(port) for port in each.get("ports", ())] for n, each in told.items()}
        return conductor.every_pair(
            "ports", lambda target: {"ports": open_.get(target, [])}, "other ports", MOST_ROUNDS, self._token
        )

    def _other_addresses(self, conductor: Conductor, seen: Sequence[Evidence[Fact]]) -> list[Evidence[Fact]]:
        told = self._ask({n: {"do": "ways"} for n in range(len(self._players))}, "interfaces")
        interfaces = {n: dict(each.get("interfaces", {})) for n, each in told.items()}
        passes = _passes(seen)

        def more(target: int) -> Request:
            player = self._players[target]
            return {"interfaces": interfaces.get(target, {}), "port": passes.get(player.host, player.free)}

        found = conductor.every_pair("addresses", more, "other addresses", MOST_ROUNDS, self._token)
        return evidence_of(told) + found

    # --- words to agents

    def _ask(self, requests: Mapping[int, Request], during: str) -> dict[int, dict[str, Any]]:
        """By player. One that does not answer in time is not asked again."""
        numbers = {self._nodes[n][0]: n for n in requests if n not in self._gone}
        answers = self._say({node: requests[n] for node, n in numbers.items()})
        self._gone |= {n for node, n in numbers.items() if node not in answers}
        return {numbers[node]: told for node, told in answers.items() if "failed" not in told}

    def _say(self, requests: Mapping[int, Request]) -> dict[int, dict[str, Any]]:
        """By node. Nobody waits once the run is to end."""
        if self._interrupted() is not None:
            return {}
        self._number += 1
        number, left = self._number, self._until - time.monotonic()
        self._leader.forget(said.Probed)
        for node, request in requests.items():
            asked = said.Probe(attempt=self._attempt, number=number, asked=json.dumps(request))
            self._leader.tell([node], asked)
        found = {}
        for node, each in self._answers(number, list(requests), min(STEP_S, max(0.0, left))).items():
            try:
                told = foreign_json.loads(each.told)
            except ValueError:
                continue
            if isinstance(told, dict):
                found[node] = told
        return found

    def _answers(self, number: int, nodes: Sequence[int], seconds: float) -> dict[int, said.Probed]:
        found = answered(self._leader, said.Probed, self._attempt, nodes, seconds)
        return {node: each for node, each in found.items() if each.number == number}


def _passes(seen: Sequence[Evidence[Fact]]) -> dict[str, int]:
    """A port of each host that most others reach."""
    counted: dict[str, Counter[int]] = {}
    for fact in (e.fact for e in seen):
        if isinstance(fact, LinkProbed) and fact.usable:
            counted.setdefault(fact.target, Counter())[fact.port] += 1
        elif isinstance(fact, PortsTried):
            counted.setdefault(fact.target, Counter()).update(fact.reached)
    return {target: ports.most_common(1)[0][0] for target, ports in counted.items() if ports}


def _roomiest(good: Sequence[int]) -> int:
    """The port of those tried after which most of the next ones pass, too: it begins the largest open range."""
    best, length, start, count = good[0], 0, good[0], 0
    for port in SPREAD:
        if port in good:
            start, count = (port, 1) if count == 0 else (start, count + 1)
            if count > length:
                best, length = start, count
        else:
            count = 0
    return best
