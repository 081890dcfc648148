# SPDX-License-Identifier: Apache-2.0
"""Which addresses and ports of the hosts work, by what was tried between them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed
from keepstep.model.facts.paths import AddressTried, PortsTried


@dataclass(frozen=True, slots=True)
class Way:
    """Where all other hosts reach a host."""

    address: str
    interface: str


def ways(seen: Iterable[Evidence[Fact]]) -> dict[str, Way]:
    """For each host an address that all others reach; nothing if there is a host without one.

    An interface that has the same name on most hosts is preferred, then IPv4, then the first.
    """
    tried: dict[str, dict[Way, list[bool]]] = {}
    for fact in (e.fact for e in seen):
        if isinstance(fact, AddressTried) and fact.interface:
            way = Way(fact.address, fact.interface)
            tried.setdefault(fact.target, {}).setdefault(way, []).append(fact.usable)
    good = {host: [way for way, reached in each.items() if all(reached)] for host, each in tried.items()}
    if not good or not all(good.values()):
        return {}
    names = Counter(name for each in good.values() for name in {way.interface for way in each})
    return {host: min(good[host], key=lambda way: (-names[way.interface], ":" in way.address)) for host in sorted(good)}


def dead_ends(seen: Iterable[Evidence[Fact]]) -> dict[str, tuple[str, ...]]:
    """For each host its interfaces with an address that another host does not reach."""
    found: dict[str, dict[str, None]] = {}
    for fact in (e.fact for e in seen):
        if isinstance(fact, AddressTried) and fact.interface and not fact.usable:
            found.setdefault(fact.target, {})[fact.interface] = None
    return {host: tuple(names) for host, names in found.items()}


def reached_ports(seen: Iterable[Evidence[Fact]]) -> dict[str, list[int]]:
    """For each host the ports, of those tried, that all others reach."""
    good: dict[str, dict[int, None]] = {}
    bad: dict[str, set[int]] = {}
    for fact in (e.fact for e in seen):
        if isinstance(fact, PortsTried):
            good.setdefault(fact.target, {}).update(dict.fromkeys(fact.reached))
            bad.setdefault(fact.target, set()).update(fact.blocked)
    return {host: sorted(port for port in ports if port not in bad[host]) for host, ports in good.items()}


def in_a_row(ports: Sequence[int]) -> list[int]:
    """The longest part of sorted ports without a gap."""
    best: list[int] = []
    now: list[int] = []
    for port in ports:
        now = [*now, port] if now and port == now[-1] + 1 else [port]
        best = now if len(now) > len(best) else best
    return best


def blocked(seen: Iterable[Evidence[Fact]], *, of_the_job: bool) -> dict[str, list[LinkProbed]]:
    """For each host the ports that another one cannot reach: those of the job, or those that are any free ones."""
    found: dict[str, list[LinkProbed]] = {}
    for fact in (e.fact for e in seen):
        if isinstance(fact, LinkProbed) and not fact.usable and fact.of_the_job is of_the_job:
            found.setdefault(fact.target, []).append(fact)
    return found


def unreached(seen: Iterable[Evidence[Fact]]) -> set[str]:
    """Hosts of which another one reaches no port at all, at the address that the job uses."""
    links: dict[tuple[str, str], bool] = {}
    for fact in (e.fact for e in seen):
        if isinstance(fact, LinkProbed):
            links[fact.source, fact.target] = links.get((fact.source, fact.target), False) or fact.usable
        elif isinstance(fact, PortsTried) and fact.reached:
            links[fact.source, fact.target] = True
    return {target for (_, target), usable in links.items() if not usable}
