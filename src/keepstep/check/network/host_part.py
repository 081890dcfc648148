# SPDX-License-Identifier: Apache-2.0
"""The network part: what one host does in the tournament when rank 0 asks it to.

One process per host has this duty. It answers on the job's own ports where they are free (torchrun's agent holds
MASTER_PORT; then, and if no port is known, on any free one), calls the hosts that rank 0 names, and returns what it
saw as evidence.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from keepstep.check.network.answers import Answers
from keepstep.check.network.grpc_call import GrpcAnswers, available, exchange
from keepstep.check.network.other_paths import MOST_PORTS as MOST_TRIED
from keepstep.check.network.other_paths import chosen, interfaces_here, try_addresses, try_ports
from keepstep.check.network.probe import CONNECT_S, ProbeContact, connect, probe
from keepstep.check.place import Collected, Place
from keepstep.model.codec import to_dict
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.cluster import NameLookedUp
from keepstep.model.facts.links import ClockCompared, GrpcExchanged, InterfaceCounters, LinkProbed, Reached
from keepstep.sources.host import this_host as host
from keepstep.sources.host.interfaces import Counted, counters

MOST_PORTS = 16
HURRIED_S = 0.6
PATIENCE = 3
"""After this many connections without an answer, the next get less time."""
BY_CHANCE = (Reached.RESET, Reached.SILENT)
"""Failures that an overloaded host may also cause once: tried twice."""
UNMEASURED = (Reached.STRANGER, Reached.UNRESOLVED)

__all__ = ["Duty", "Target", "look", "own_addresses"]


@dataclass(frozen=True)
class Target:
    """A host to call: the name the job uses, who must answer, and where."""

    host: str
    name: str
    who: str
    rank: int | None
    ports: tuple[int, ...]
    """Ports of the job that it listens on."""
    free: int
    """A free port that it listens on."""
    also_free: bool
    """Whether the job connects to ports that are not known in advance (gloo, NCCL)."""
    addresses: tuple[str, ...] = ()

    @classmethod
    def read(cls, told: dict[str, Any]) -> Target:
        return cls(
            host=str(told["host"]),
            name=str(told["name"]),
            who=str(told["who"]),
            rank=None if told["rank"] is None else int(told["rank"]),
            ports=tuple(int(port) for port in told["ports"]),
            free=int(told["free"]),
            also_free=bool(told["also_free"]),
            addresses=tuple(str(address) for address in told["addresses"]),
        )


def own_addresses() -> tuple[str, ...]:
    """Every address at which others could reach this host."""
    found = [address for each in host.interfaces() if each.up for address in each.addresses]
    return tuple(address for address in found if not ipaddress.ip_address(address).is_loopback)


def look(place: Place) -> Collected:
    """What one host alone can see: its interfaces."""
    looked = Collected()
    now = counters()
    for each in _counted(place.host, now, now):
        looked.add(place.saw(each, f"counters of {each.interface}", _said(each)))
    if now:
        looked.checked(f"interfaces of {place.host}")
    else:
        looked.unavailable(f"interfaces of {place.host}", "the kernel shows no counters")
    return looked


class Duty:
    """What one host does in the tournament. Must be closed, whatever happens."""

    def __init__(self, place: Place, token: bytes) -> None:
        self._place = place
        self._token = token
        self._who = host.identity()
        self._name = place.host
        self._answers: Answers | None = None
        self._before: dict[str, Counted] = {}
        self._unanswered = 0
        self._grpc: GrpcAnswers | None = None

    def do(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request of rank 0; evidence goes back as dictionaries."""
        if asked["do"] == "listen":
            self._name = str(asked["as"])
            return self._listen([int(port) for port in asked["ports"]][:MOST_PORTS])
        if asked["do"] == "probe":
            found = self._probe(Target.read(asked["target"]), bool(asked["again"]), float(asked["bulk_s"]))
            return {"evidence": [to_dict(each) for each in found]}
        if asked["do"] == "grpc listen":
            return self._listen_for_grpc([int(port) for port in asked["ports"]][:1])
        if asked["do"] == "grpc":
            found = self._call(Target.read(asked["target"]))
            return {"evidence": [to_dict(each) for each in found]}
        if asked["do"] == "ways":
            return self._ways()
        if asked["do"] == "open":
            return self._open([int(port) for port in asked["ports"]][:MOST_TRIED])
        if asked["do"] in ("addresses", "ports"):
            return {"evidence": [to_dict(each) for each in self._try(asked)]}
        if asked["do"] == "stop":
            return {"evidence": [to_dict(each) for each in self._stop()]}
        return {}

    def close(self) -> None:
        for each in (self._answers, self._grpc):
            if each is not None:
                each.close()
        self._answers = self._grpc = None

    def _listen(self, ports: list[int]) -> dict[str, Any]:
        self._before = counters()
        self._answers = Answers(self._token, self._who)
        told = self._answers.open_of_the_job(ports)
        free = self._answers.open(0)
        return {"ports": {str(port): how for port, how in told.items()}, "free": free}

    def _ways(self) -> dict[str, Any]:
        """The interfaces of this host, and the address that it gives out."""
        by_name = chosen(self._name, self._place.env)
        said = f"{self._name} gives out {by_name.address}, by {by_name.by}" if by_name is not None else ""
        found = [self._place.saw(by_name, "the resolver", said)] if by_name is not None else []
        return {"interfaces": interfaces_here(), "evidence": [to_dict(each) for each in found]}

    def _open(self, ports: list[int]) -> dict[str, Any]:
        told = self._answers.open_of_the_job(ports) if self._answers is not None else {}
        return {"ports": [port for port, how in told.items() if how == "listening"]}

    def _try(self, asked: dict[str, Any]) -> list[Evidence[Fact]]:
        """Other addresses or ports of a host."""
        target = Target.read(asked["target"])
        if asked["do"] == "addresses":
            interfaces = {str(address): str(name) for address, name in dict(asked["interfaces"]).items()}
            tried = try_addresses(self._name, target.host, target.who, interfaces, int(asked["port"]), self._token)
            return [
                self._place.saw(
                    each,
                    f"probe of {target.host}",
                    f"{self._name} -> {each.address} ({each.interface} of {target.host}): {each.said or 'connected'}",
                )
                for each in tried
            ]
        address, problem = _address(target)
        if problem is not None:
            return []
        ports = [int(port) for port in asked["ports"]]
        found = try_ports(self._name, target.host, target.who, address, ports, self._token)
        words = f"{self._name} -> {target.host}: {len(found.reached)} of {len(ports)} ports answer"
        return [self._place.saw(found, f"probe of {target.host}", words)]

    def _listen_for_grpc(self, ports: list[int]) -> dict[str, Any]:
        """The job's own port again, now for gRPC; another one if it is taken."""
        if self._answers is not None:
            self._answers.close()
            self._answers = None
        if not available():
            return {"free": 0}
        for port in (*ports, 0):
            self._grpc = GrpcAnswers(self._token, self._who)
            with contextlib.suppress(OSError):
                return {"free": self._grpc.open(port)}
        return {"free": 0}

    def _call(self, target: Target) -> list[Evidence[Fact]]:
        address, problem = _address(target)
        if problem is not None or not available():
            return []
        error = exchange(target.name if address in target.addresses else address, target.free, self._token, target.who)
        fact = GrpcExchanged(
            source=self._name,
            target=target.host,
            source_rank=self._place.rank.index if self._place.rank else None,
            target_rank=target.rank,
            address=f"{target.name}:{target.free}",
            error=error,
        )
        words = f"gRPC {self._name} -> {fact.address}: {error or 'answered'}"
        return [self._place.saw(fact, f"gRPC call to {target.host}", words)]

    def _stop(self) -> Iterable[Evidence[Fact]]:
        self.close()
        for each in _counted(self._name, self._before, counters()):
            yield self._place.saw(each, f"counters of {each.interface}", _said(each))

    def _probe(self, target: Target, again: bool, bulk_s: float) -> list[Evidence[Fact]]:
        """Every port of the job at once, then the measurements on the first that answers."""
        address, problem = _address(target)
        if problem is not None:
            unknown = NameLookedUp(name=target.name, error=problem.said)
            port = target.ports[0] if target.ports else target.free
            resolver = self._place.saw(unknown, "the resolver", f"{target.name} -> {problem.said}")
            return [self._saw(target, address, port, problem), resolver]
        ports = [*target.ports, *([target.free] if target.also_free or not target.ports else [])]
        within = HURRIED_S if self._unanswered >= PATIENCE else CONNECT_S
        first = self._attempt(target, address, ports[0], within, bulk_s)
        attempts = {ports[0]: first}
        if len(ports) > 1 and not again:
            with ThreadPoolExecutor(len(ports)) as pool:
                others = {port: pool.submit(self._attempt, target, address, port, within) for port in ports[1:]}
            attempts |= {port: other.result() for port, other in others.items()}
        if first.reached is not Reached.CONNECTED and not again:
            port = next((p for p, a in attempts.items() if a.reached is Reached.CONNECTED), target.free)
            if port in attempts or first.reached not in UNMEASURED:
                measured = self._attempt(target, address, port, within if port in attempts else HURRIED_S, bulk_s)
                if measured.reached is Reached.CONNECTED or port in attempts:
                    attempts[port] = measured
        if any(each.reached is Reached.NO_ANSWER for each in attempts.values()):
            self._unanswered += 1
        found: list[Evidence[Fact]] = []
        for port, attempt in attempts.items():
            found.append(self._saw(target, address, port, attempt, again))
            if attempt.ahead_s is not None and not again:
                found.append(self._clock(target, attempt))
        return found

    def _attempt(
        self, target: Target, address: str, port: int, within: float, bulk_s: float | None = None
    ) -> ProbeContact:
        found = probe(address, port, self._token, target.who, bulk_s=bulk_s, within=within)
        if found.reached in BY_CHANCE:
            found = probe(address, port, self._token, target.who, bulk_s=bulk_s, within=within)
        return found

    def _saw(
        self, target: Target, address: str, port: int, attempt: ProbeContact, again: bool = False
    ) -> Evidence[Fact]:
        fact = LinkProbed(
            source=self._name,
            target=target.host,
            source_rank=self._place.rank.index if self._place.rank else None,
            target_rank=target.rank,
            name=target.name,
            address=address,
            port=port,
            of_the_job=port in target.ports,
            owned=not address or address in target.addresses,
            reached=attempt.reached,
            said=attempt.said,
            latency_s=attempt.latency_s,
            quickest_s=attempt.quickest_s,
            rate_bytes_s=attempt.rate_bytes_s,
            again=again,
            full_size=attempt.full_size,
            passed_size=attempt.passed_size,
            resent=attempt.resent,
        )
        return self._place.saw(fact, f"probe of {target.host}", _told(fact))

    def _clock(self, target: Target, attempt: ProbeContact) -> Evidence[Fact]:
        fact = ClockCompared(
            source=self._name,
            target=target.host,
            source_rank=self._place.rank.index if self._place.rank else None,
            target_rank=target.rank,
            ahead_s=attempt.ahead_s or 0.0,
            uncertain_s=(attempt.quickest_s or 0.0) / 2,
        )
        words = f"the clock of {target.host} differs from that of {self._name} by {fact.ahead_s:+.3f} s"
        return self._place.saw(fact, f"exchange with {target.host}", words)


def _address(target: Target) -> tuple[str, ProbeContact | None]:
    """A host's address, as this host resolves its name: one that the target has, else the first."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(target.name.partition("%")[0])), None
    addresses, error = host.resolve([target.name])[target.name]
    if not addresses:
        return "", ProbeContact(Reached.UNRESOLVED, error or "no address")
    return next((a for a in addresses if a in target.addresses), addresses[0]), None


def _told(fact: LinkProbed) -> str:
    where = f"{fact.source} -> {fact.name}:{fact.port}"
    if fact.address and fact.address != fact.name:
        where += f" ({fact.address})"
    if not fact.usable:
        return f"{where}: {fact.reached.value}" + (f" ({fact.said})" if fact.said != fact.reached.value else "")
    parts = []
    if fact.latency_s is not None:
        parts.append(f"{fact.latency_s * 1e3:.2f} ms")
    if fact.rate_bytes_s is not None:
        parts.append(f"{fact.rate_bytes_s * 8 / 1e6:,.0f} Mbit/s")
    if fact.passed_size is not None:
        parts.append(f"a packet of {fact.full_size} bytes got lost, {fact.passed_size or 'no smaller one'} got through")
    return f"{where}: {', '.join(parts) or 'connected'}"


def _counted(name: str, before: dict[str, Counted], after: dict[str, Counted]) -> Iterable[InterfaceCounters]:
    for interface, now in after.items():
        then = before.get(interface, now)
        yield InterfaceCounters(
            host=name,
            interface=interface,
            packets=now.packets,
            errors=now.errors,
            dropped=now.dropped,
            packets_now=max(0, now.packets - then.packets),
            errors_now=max(0, now.errors - then.errors),
            dropped_now=max(0, now.dropped - then.dropped),
            kinds=", ".join(f"{kind} {number}" for kind, number in now.kinds.items()),
        )


def _said(each: InterfaceCounters) -> str:
    now = (
        f", {each.errors_now} and {each.dropped_now} of {each.packets_now} during the check" if each.packets_now else ""
    )
    return f"{each.interface}: {each.errors} errors and {each.dropped} dropped of {each.packets} packets{now}"


def reach(address: str, port: int) -> ProbeContact:
    """Whether a host is at an address at all: a refusal means that the host itself answered."""
    made = connect(address, port, HURRIED_S * 2)
    if isinstance(made, socket.socket):
        made.close()
        return ProbeContact(Reached.CONNECTED)
    return made
