# SPDX-License-Identifier: Apache-2.0
"""The tournament as rank 0 conducts it: one process per host takes part, the others on that host rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keepstep.check.meeting import Appointment, Attendee, Desk
from keepstep.check.network import Duty, look, own_addresses
from keepstep.check.network_probe import BULK_S
from keepstep.check.place import Collected, Place
from keepstep.check.tournament import Pair, hold, how_many, measured_again, rounds
from keepstep.cluster.address import is_loopback
from keepstep.core.codec import from_dict
from keepstep.core.evidence import Evidence
from keepstep.core.facts.base import Fact
from keepstep.core.facts.link import LinkProbed
from keepstep.core.wording import listing
from keepstep.sources import host as this_host

GRPC_ROUNDS = 3
"""With more than four hosts, each calls three others: what breaks only gRPC lies in hosts rather than links."""
BULK_AGAIN_S = 0.25
BULK_OF_MANY_S, MANY = 0.03, 16
"""With many links to compare, each gets less time."""
STEP_S = 30.0
"""The longest one step may take: every port silent, then every packet size tried."""
PLAIN = ("TF_CONFIG",)
"""Frameworks whose jobs connect only to the ports they list."""


@dataclass
class Player:
    """One host. ``guest`` is None for rank 0's own."""

    guest: Attendee | None
    rank: int | None
    host: str
    name: str
    who: str
    addresses: tuple[str, ...]
    job_ports: list[int] = field(default_factory=list)
    open_ports: list[int] = field(default_factory=list)
    free: int = 0

    @property
    def gone(self) -> bool:
        return self.guest is not None and self.guest.gone


def conduct(place: Place, appointment: Appointment, desk: Desk, duty: Duty, sample: int | None) -> Collected:
    """Let every host probe every other one."""
    looked = Collected()
    players = _players(place, appointment, desk.guests)
    if len(players) < 2:
        looked.unavailable("links between hosts", "all processes that came are on one host")
        looked.take(look(place))
        return looked
    conductor = _Conductor(players, desk, duty, also_free=place.cluster is None or place.cluster.said_by not in PLAIN)
    conductor.listen(looked)
    found = hold(len(players), conductor.play, sample, appointment.identity)
    found += measured_again(found, conductor.number, conductor.play)
    if place.cluster is not None and place.cluster.said_by in PLAIN:
        found += conductor.grpc(looked, found, min(sample or GRPC_ROUNDS, GRPC_ROUNDS), appointment.identity)
    looked.add(*found, *conductor.stop())
    pairs = len({(e.fact.source, e.fact.target) for e in found if isinstance(e.fact, LinkProbed)})
    looked.checked(f"{pairs} links between {len(players)} hosts")
    every = how_many(len(players))
    if sample is not None and sample < every:
        looked.unavailable(f"{every - sample} of {every} rounds between hosts", f"--sample {sample}")
    return looked


class _Conductor:
    def __init__(self, players: list[Player], desk: Desk, duty: Duty, *, also_free: bool) -> None:
        self._players = players
        self._desk = desk
        self._duty = duty
        self._also_free = also_free
        self._bulk_s = BULK_S if len(players) <= MANY else BULK_OF_MANY_S
        self._numbers = {player.host: n for n, player in enumerate(players)}

    def number(self, fact: LinkProbed) -> Pair | None:
        source, target = self._numbers.get(fact.source), self._numbers.get(fact.target)
        return None if source is None or target is None else (source, target)

    def listen(self, looked: Collected) -> None:
        """Every host opens its ports; those held by another process are reported."""
        told = self._tell(
            {n: {"do": "listen", "ports": p.job_ports, "as": p.host} for n, p in enumerate(self._players)},
            "opening ports",
        )
        for n, answer in told.items():
            player = self._players[n]
            how = {int(port): str(what) for port, what in dict(answer["ports"]).items()}
            player.open_ports = [port for port in player.job_ports if how.get(port) == "listening"]
            player.free = int(answer["free"])
            for port, what in how.items():
                if what != "listening":
                    why = "the launcher or another process listens there" if what == "held" else what
                    looked.unavailable(
                        f"port {port} of {player.host}", f"{why}; its links were tried on port {player.free}"
                    )

    def play(self, pairs: Sequence[Pair], again: bool) -> list[Evidence[Fact]]:
        requests: dict[int, dict[str, Any]] = {}
        for source, target in pairs:
            caller, called = self._players[source], self._players[target]
            if not caller.gone and not called.gone and called.free:
                requests[source] = {
                    "do": "probe",
                    "target": self._target(called),
                    "again": again,
                    "bulk_s": BULK_AGAIN_S if again else self._bulk_s,
                }
        return _evidence(self._tell(requests, "the probes between hosts"))

    def grpc(self, looked: Collected, probed: list[Evidence[Fact]], most: int, seed: str) -> list[Evidence[Fact]]:
        """One real call on every link that carries plain connections, to the job's own port where it is free."""
        links = [e.fact for e in probed if isinstance(e.fact, LinkProbed)]
        broken = {self.number(fact) for fact in links if not fact.usable or fact.passed_size is not None}
        broken |= {pair[::-1] for pair in broken if pair is not None}  # an answer travels the other way
        requests = {n: {"do": "grpc listen", "ports": p.open_ports} for n, p in enumerate(self._players)}
        ports = {n: int(told["free"]) for n, told in self._tell(requests, "opening ports for gRPC").items()}
        ready = [n for n, port in ports.items() if port]
        if len(ready) < len(self._players):
            names = [self._players[n].host for n in range(len(self._players)) if n not in ready]
            looked.unavailable(
                f"gRPC calls to {listing(names[:4])}", "grpcio cannot be imported or cannot listen there"
            )
        found: list[Evidence[Fact]] = []
        for pairs in rounds(len(self._players), most, seed):
            for turn in (pairs, [(b, a) for a, b in pairs]):
                asked = {
                    a: {"do": "grpc", "target": {**self._target(self._players[b]), "free": ports[b]}}
                    for a, b in turn
                    if b in ready and (a, b) not in broken
                }
                found += _evidence(self._tell(asked, "gRPC calls between hosts"))
        if found:
            looked.checked(f"gRPC calls on {len(found)} links")
        return found

    def stop(self) -> list[Evidence[Fact]]:
        return _evidence(self._tell({n: {"do": "stop"} for n in range(len(self._players))}, "closing ports"))

    def _target(self, player: Player) -> dict[str, Any]:
        return {
            "host": player.host,
            "name": player.name,
            "who": player.who,
            "rank": player.rank,
            "ports": player.open_ports,
            "free": player.free,
            "also_free": self._also_free,
            "addresses": list(player.addresses),
        }

    def _tell(self, requests: dict[int, dict[str, Any]], during: str) -> dict[int, dict[str, Any]]:
        own: dict[int, dict[str, Any]] = {}
        guests: dict[Attendee, dict[str, Any]] = {}
        numbers: dict[Attendee, int] = {}
        mine: tuple[int, dict[str, Any]] | None = None
        for n, request in requests.items():
            guest = self._players[n].guest
            if guest is None:
                mine = (n, request)
            else:
                guests[guest] = request
                numbers[guest] = n

        def meanwhile() -> None:
            if mine is not None:
                own[mine[0]] = self._duty.do(mine[1])

        answers = self._desk.ask(guests, STEP_S, during, meanwhile)
        return own | {numbers[guest]: answer for guest, answer in answers.items() if "failed" not in answer}


def _players(place: Place, appointment: Appointment, guests: Sequence[Attendee]) -> list[Player]:
    """One process per host, in rank order, with the ports that the job uses there."""
    cluster = place.cluster
    tasks = {task.rank: task for task in cluster.tasks} if cluster else {}
    own_rank = place.rank.index if place.rank else None
    here = Player(None, own_rank, place.host, appointment.host, this_host.identity(), own_addresses())
    players = {here.who: here}
    members: list[tuple[int | None, Player]] = [(own_rank, here)]
    for guest in sorted((g for g in guests if not g.gone), key=lambda g: (g.rank is None, g.rank)):
        player = Player(guest, guest.rank, guest.host, guest.seen_at, guest.who, guest.addresses)
        members.append((guest.rank, players.setdefault(guest.who, player)))
    for rank, player in members:
        task = tasks.get(rank) if rank is not None else None
        if task is None:
            continue
        if task.host and not is_loopback(task.host) and player.rank == rank:
            player.name = task.host
        if task.port and task.port not in player.job_ports:
            player.job_ports.append(task.port)
    found = list(players.values())
    names = [player.host for player in found]
    for player in found:
        if names.count(player.host) > 1:
            player.host += f" (rank {player.rank})" if player.rank is not None else f" ({player.name})"
    return found


def _evidence(answers: dict[int, dict[str, Any]]) -> list[Evidence[Fact]]:
    return [from_dict(each) for n in sorted(answers) for each in answers[n].get("evidence", ())]
