# SPDX-License-Identifier: Apache-2.0
"""Who tells the hosts of a tournament what to do, and when; how each is reached is the caller's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keepstep.base.wording import listing
from keepstep.check.network.probe import BULK_S
from keepstep.check.network.tournament import Pair, hold, measured_again, rounds
from keepstep.check.place import Collected
from keepstep.model.codec import from_dict
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed

BULK_AGAIN_S = 0.25
BULK_OF_MANY_S, MANY = 0.03, 16
"""With many links to compare, each gets less time."""

Request = dict[str, Any]
Ask = Callable[[Mapping[int, Request], str], dict[int, dict[str, Any]]]
"""Sends each player its request, all at once, and returns the answers in time. The text says what this is for."""


@dataclass
class Player:
    """One host."""

    rank: int | None
    host: str
    name: str
    """Where the job reaches it."""
    who: str
    addresses: tuple[str, ...]
    job_ports: list[int] = field(default_factory=list)
    open_ports: list[int] = field(default_factory=list)
    free: int = 0
    is_gone: Callable[[], bool] = lambda: False


class Conductor:
    """Of one tournament."""

    def __init__(self, players: list[Player], ask: Ask, *, also_free: bool) -> None:
        """``also_free``: the job connects to ports that nobody knows in advance, too."""
        self.players = players
        self.ask = ask
        self._also_free = also_free
        self._bulk_s = BULK_S if len(players) <= MANY else BULK_OF_MANY_S
        self._numbers = {player.host: n for n, player in enumerate(players)}

    def number(self, fact: LinkProbed) -> Pair | None:
        source, target = self._numbers.get(fact.source), self._numbers.get(fact.target)
        return None if source is None or target is None else (source, target)

    def probe_all(self, looked: Collected, sample: int | None, seed: str) -> list[Evidence[Fact]]:
        """Every host opens its ports and probes every other one."""
        self._listen(looked)
        found = hold(len(self.players), self._play, sample, seed)
        return found + measured_again(found, self.number, self._play)

    def _listen(self, looked: Collected) -> None:
        """Every host opens its ports; those held by another process are reported."""
        told = self.ask(
            {n: {"do": "listen", "ports": p.job_ports, "as": p.host} for n, p in enumerate(self.players)},
            "opening ports",
        )
        for n, answer in told.items():
            player = self.players[n]
            how = {int(port): str(what) for port, what in dict(answer["ports"]).items()}
            player.open_ports = [port for port in player.job_ports if how.get(port) == "listening"]
            player.free = int(answer["free"])
            for port, what in how.items():
                if what != "listening":
                    why = "the launcher or another process listens there" if what == "held" else what
                    looked.unavailable(
                        f"port {port} of {player.host}", f"{why}; its links were tried on port {player.free}"
                    )

    def _play(self, pairs: Sequence[Pair], again: bool) -> list[Evidence[Fact]]:
        more = {"again": again, "bulk_s": BULK_AGAIN_S if again else self._bulk_s}
        return self.each("probe", pairs, lambda target: more, "the probes between hosts")

    def each(self, do: str, pairs: Sequence[Pair], more: Callable[[int], Request], during: str) -> list[Evidence[Fact]]:
        """Ask the first of each pair to do something with the second, all at once; ``more``: by the second."""
        requests = {}
        for source, target in pairs:
            caller, called = self.players[source], self.players[target]
            if not caller.is_gone() and not called.is_gone() and called.free:
                requests[source] = {"do": do, "target": self._target(called), **more(target)}
        return evidence_of(self.ask(requests, during))

    def every_pair(
        self, do: str, more: Callable[[int], Request], during: str, sample: int | None, seed: str
    ) -> list[Evidence[Fact]]:
        """The same for all pairs, in rounds, in both directions at once: for what measures no rate."""
        found: list[Evidence[Fact]] = []
        for pairs in rounds(len(self.players), sample, seed):
            found += self.each(do, [*pairs, *((b, a) for a, b in pairs)], more, during)
        return found

    def grpc(self, looked: Collected, probed: list[Evidence[Fact]], most: int, seed: str) -> list[Evidence[Fact]]:
        """One real call on every link that carries plain connections, to the job's own port where it is free."""
        links = [e.fact for e in probed if isinstance(e.fact, LinkProbed)]
        broken = {self.number(fact) for fact in links if not fact.usable or fact.passed_size is not None}
        broken |= {pair[::-1] for pair in broken if pair is not None}  # an answer travels the other way
        requests = {n: {"do": "grpc listen", "ports": p.open_ports} for n, p in enumerate(self.players)}
        ports = {n: int(told["free"]) for n, told in self.ask(requests, "opening ports for gRPC").items()}
        ready = [n for n, port in ports.items() if port]
        if len(ready) < len(self.players):
            names = [self.players[n].host for n in range(len(self.players)) if n not in ready]
            looked.unavailable(
                f"gRPC calls to {listing(names[:4])}", "grpcio cannot be imported or cannot listen there"
            )
        found: list[Evidence[Fact]] = []
        for pairs in rounds(len(self.players), most, seed):
            for turn in (pairs, [(b, a) for a, b in pairs]):
                asked = {
                    a: {"do": "grpc", "target": {**self._target(self.players[b]), "free": ports[b]}}
                    for a, b in turn
                    if b in ready and (a, b) not in broken
                }
                found += evidence_of(self.ask(asked, "gRPC calls between hosts"))
        if found:
            looked.checked(f"gRPC calls on {len(found)} links")
        return found

    def stop(self) -> list[Evidence[Fact]]:
        return evidence_of(self.ask({n: {"do": "stop"} for n in range(len(self.players))}, "closing ports"))

    def _target(self, player: Player) -> Request:
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


def evidence_of(answers: Mapping[int, dict[str, Any]]) -> list[Evidence[Fact]]:
    """What the answers hold."""
    return [from_dict(each) for n in sorted(answers) for each in answers[n].get("evidence", ())]


def told_apart(players: list[Player]) -> None:
    """Give hosts with the same name names of their own."""
    names = [player.host for player in players]
    for player in players:
        if names.count(player.host) > 1:
            player.host += f" (rank {player.rank})" if player.rank is not None else f" ({player.name})"
