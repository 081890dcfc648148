# SPDX-License-Identifier: Apache-2.0
"""Who is who: from a node and a local rank, a process or a device to the rank of the run. Nothing is guessed.

Analysis tells a `Members` what the logs state, and asks it about everything that names a member in another way. If
two statements contradict each other, neither is believed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.rank_places import NodeSeen, RankKnownBy
from keepstep.model.identity import MOST_RANKS

_LOG = lazy_pattern(r"\.(?:log|txt|out|err)(?:\.\w+)?$")
_NUMBERED = lazy_pattern(r"(node|host|machine|slice)[-_]?\d+")


@dataclass(frozen=True, slots=True)
class KnownRank:
    """A rank and how it is known, if that is worth a line; without a rank, what is known instead."""

    rank: int | None
    how: str


@dataclass(slots=True)
class _NodeRanks:
    indices: set[int] = field(default_factory=set)
    firsts: set[int] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)
    number: int | None = None
    """By its name: asked only if nothing is said."""
    members: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By local rank."""


class KnownMembers:
    """The members of one run. Nodes have any name, such as a host's, a pod's or a log's."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeRanks] = defaultdict(_NodeRanks)
        self._counts: set[int] = set()
        self._sizes: set[int] = set()
        self._devices: set[int] = set()
        self._hosts: tuple[str, ...] = ()
        self._by_pid: dict[int, set[tuple[str, int]]] = defaultdict(set)
        self._by_bus: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self.world: int | None = None
        self.apart = False
        """Whether several nodes are seen to number their ranks from 0, without a word about nodes."""

    def say(self, node: str, said: NodeSeen) -> None:
        """Take a line printed on a node."""
        its = self._nodes[node]
        its.indices |= {said.index} - {None}  # type: ignore[arg-type]
        its.firsts |= {said.first} - {None}  # type: ignore[arg-type]
        its.sizes |= {said.per_node} - {None}  # type: ignore[arg-type]
        self._counts |= {said.count} - {None}  # type: ignore[arg-type]
        self._sizes |= {said.per_node} - {None}  # type: ignore[arg-type]
        self._devices |= {said.devices} - {None}  # type: ignore[arg-type]
        if len(said.hosts) > 1 and not said.firsts:
            self._hosts = said.hosts
        for host, first in zip(said.hosts, said.firsts, strict=False):
            self._nodes[short(host)].firsts.add(first)

    def number(self, node: str, number: int) -> None:
        """Take the number in a node's name."""
        self._nodes[node].number = number

    def place(
        self, rank: int, node: str = "", *, local: int | None = None, pid: int | None = None, bus: str = ""
    ) -> None:
        """Take a line that says where a rank is."""
        if local is not None and node:
            self._nodes[node].members[local].add(rank)
        if pid is not None:
            self._by_pid[pid].add((node, rank))
        if bus:
            self._by_bus[_bus(bus)].add((node, rank))

    @property
    def several(self) -> bool:
        """Whether the run has several nodes, so a local rank is not the rank."""
        return self.apart or self._said_several

    @property
    def _said_several(self) -> bool:
        return (
            any(1 < count <= (self.world or count) for count in self._counts)
            or len(self._hosts) > 1
            or any(max(each.indices, default=0) > 0 or max(each.firsts, default=0) > 0 for each in self._nodes.values())
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        return self._hosts

    def at(self, node: str, local: int, what: str = "local rank") -> KnownRank:
        """The rank with this local rank, or on this device, of a node."""
        its = self._nodes.get(node) or _NodeRanks()
        direct = its.members.get(local, set())
        if len(direct) == 1:
            rank = next(iter(direct))
            return KnownRank(rank, "" if rank == local else f"{what} {local} on {self._label(node)}")
        if direct:
            return KnownRank(None, f"{what} {local} on {self._label(node)}")
        first = _only(its.firsts) if its.firsts else self._by_distance(its)
        if first is not None and self._fits(first + local):
            return KnownRank(first + local, f"{what} {local} on {self._label(node)}, whose first rank is {first}")
        index, size = self._index(node), self._size()
        if index is None or size is None or local >= size or not self._fits(index * size + local):
            return KnownRank(None, f"{what} {local} on {self._label(node)}")
        return KnownRank(
            index * size + local, f"{what} {local} on {self._label(node)}, {size} per {_kind(node) or 'node'}"
        )

    def of_pid(self, pid: int, node: str = "") -> KnownRank | None:
        """The rank that ran as a process."""
        found = self._on(self._by_pid.get(pid, set()), node)
        return KnownRank(found, f"pid {pid}") if found is not None else None

    def of_node(self, node: str) -> KnownRank | None:
        """The only rank on a node."""
        found = {rank for places in self._by_pid.values() for where, rank in places if where == node}
        rank = _only(found)
        return KnownRank(rank, f"the only rank on {node}") if rank is not None else None

    def of_bus(self, bus: str, node: str = "") -> KnownRank | None:
        """The rank whose device has this place on its host's bus."""
        found = self._on(self._by_bus.get(_bus(bus), set()), node)
        return KnownRank(found, f"its device is at {bus}") if found is not None else None

    @staticmethod
    def _on(found: set[tuple[str, int]], node: str) -> int | None:
        """The only rank among these; if hosts share a number, the one on this host."""
        ranks = {rank for _, rank in found}
        if len(ranks) > 1:
            ranks = {rank for where, rank in found if where == node}
        return _only(ranks)

    def _by_distance(self, its: _NodeRanks) -> int | None:
        """The node's first rank, if its known members all give the same."""
        return _only({rank - local for local, ranks in its.members.items() for rank in ranks})

    def _size(self) -> int | None:
        """Ranks per node, the same on all, unless the size of the world contradicts it; else devices per node."""
        size, count = _only(self._sizes or self._devices), _only(self._counts)
        if size is None or count is None or self.world is None or self.counts_nodes:
            return size
        return size if size * count == self.world else None

    def _index(self, node: str) -> int | None:
        its = self._nodes.get(node) or _NodeRanks()
        if its.indices:
            return _only(its.indices)
        if self._hosts:
            places = [n for n, host in enumerate(self._hosts) if short(host) == node]
            return places[0] if len(places) == 1 else None
        numbers = {each.number for each in self._nodes.values() if each.number is not None}
        many = _only(self._counts) or len(numbers)
        return its.number if 0 in numbers and max(numbers) < many else None

    def _label(self, node: str) -> str:
        index, kind = self._index(node), _kind(node)
        if index is None:
            return node
        return f"{kind or 'node'} {index}" if kind or _LOG.search(node) else f"node {index} ({node})"

    def _fits(self, rank: int) -> bool:
        return self.world is None or rank < self.world or self.counts_nodes

    @property
    def counts_nodes(self) -> bool:
        """Whether what the program calls its world is its nodes, as in scripts that start a rank per device."""
        size = _only(self._sizes or self._devices)
        return self.world is not None and self._counts == {self.world} and size is not None and size > 1


def short(host: str) -> str:
    """A host's name without its domain; an address as it is."""
    host = host.strip().lower()
    return host if host.replace(".", "").isdecimal() else host.partition(".")[0]


def _kind(node: str) -> str | None:
    """What a name such as ``slice1`` calls it."""
    match = _NUMBERED.fullmatch(node)
    return match[1] if match else None


def _only(found: set[int]) -> int | None:
    return next(iter(found)) if len(found) == 1 else None


def _bus(place: str) -> str:
    """``0000:9b:00.0``, ``PCI:0000:9b:00`` and NCCL's ``9b000`` as bus and device, ``9b:00``."""
    text = place.lower().removeprefix("pci:")
    if ":" in text:
        *domain, bus, device = text.split(":")
        return f"{bus}:{device.partition('.')[0]}" if not domain or int(domain[-1] or "0", 16) == 0 else text
    return f"{text[:-3].rjust(2, '0')}:{text[-3:-1]}" if len(text) in (4, 5) else text


def several_nodes(seen: EvidenceSet) -> bool:
    """Whether the run has several nodes: then a local rank alone names nobody."""
    return seen.once(_several)


def _several(seen: EvidenceSet) -> bool:
    said = [e.fact for e in seen.all(NodeSeen)]
    most = seen.world_size or MOST_RANKS
    return any(1 < (f.count or 1) <= most or (f.index or 0) > 0 or (f.first or 0) > 0 for f in said) or any(
        e.fact.rank is None for e in seen.all(RankKnownBy)
    )


def rank_of_exit(seen: EvidenceSet, exited: Evidence[ProcessExited]) -> int | None:
    """Whose end a launcher reports; a local rank is the rank if there is only one node."""
    if exited.who is not None:
        return exited.who
    return None if several_nodes(seen) else exited.fact.local_rank
