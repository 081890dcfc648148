# SPDX-License-Identifier: Apache-2.0
"""Where the processes of a run are, as its logs say, and so which ranks they have. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from keepstep.analyze.log_names import by_numbers, host_in, numbered_alike, of_a_launcher
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.network import PeerLost
from keepstep.model.facts.platform import DeviceFault
from keepstep.model.facts.process import FatalSignal, ProcessExited
from keepstep.model.facts.rank_places import MemberPlaced, NodeSeen
from keepstep.model.facts.resource import DeviceMemoryExhausted, OomKilled
from keepstep.model.facts.sync import CommMember
from keepstep.parse.scan.lines.writer import Writer, identify
from keepstep.parse.scan.sighting import Scanned, Sighting
from keepstep.story.who_is_who import KnownMembers, KnownRank, short

_OWN_WORD = lazy_pattern(r"\[(?:PG [^\]]{0,80} )?Rank (\d+)\]")
_DEVICE = lazy_pattern(r"\b(?:GPU|NPU|cuda:|npu:|XPU|HPU) ?(\d{1,3})\b")
_TELLING = (NodeSeen, MemberPlaced, ProcessExited, WorldSeen, CommMember)
NAMING = (ProcessExited, OomKilled, FatalSignal, DeviceFault, DeviceMemoryExhausted, PeerLost)
"""Facts that may name a process or a device instead of a rank."""
SPAWNED = "spawned "
"""Begins the key of a writer whose traceback its parent printed."""


class Places:
    """What the logs say about nodes, processes and devices. ``number``: a writer's number over all roles."""

    def __init__(
        self, logs: Sequence[Scanned], owners: Mapping[str, Writer], number: Callable[[Writer], int | None]
    ) -> None:
        self.members = KnownMembers()
        self.members.world = _world(logs)
        self.owners = dict(owners)
        self.how: dict[int, str] = {}
        """How each rank that no line states was found."""
        self._number = number
        self._present = frozenset(short(s.writer.node) for log in logs for s in log.sightings if s.writer.node)
        self._hosts = self._present | self._listed(logs)
        self._prefixes_are_hosts = self._are_hosts(logs)
        self._learn_names(logs)
        self._learn_hosts(logs)
        self._learn(logs)
        if self.members.counts_nodes:
            self.owners = {
                name: replace(each, rank=None, key="") if each.by_words else each for name, each in self.owners.items()
            }

    @staticmethod
    def _listed(logs: Sequence[Scanned]) -> frozenset[str]:
        """The hosts that a launcher or a script lists."""
        found: set[str] = set()
        for log in logs:
            for sighting in log.sightings:
                if isinstance(sighting.fact, NodeSeen):
                    found |= set(map(short, sighting.fact.hosts))
        return frozenset(found)

    def _are_hosts(self, logs: Sequence[Scanned]) -> bool:
        """Whether numbered pods, prefixes or logs are nodes: each says that its node has this very number."""
        said: set[tuple[int, int]] = set()
        sizes: set[int] = set()
        for log in logs:
            for fact, _, writer, *_ in log.sightings:
                if isinstance(fact, NodeSeen):
                    sizes |= {fact.per_node or fact.devices or 0}
                    speaker = writer if writer.key else self.owners[log.name]
                    number = self._number(speaker)
                    if fact.index is not None and number is not None and not speaker.own and not speaker.by_words:
                        said.add((number, fact.index))
        return max(sizes, default=0) > 1 and any(n for _, n in said) and all(one == other for one, other in said)

    def _learn_names(self, logs: Sequence[Scanned]) -> None:
        """Logs whose names give their ranks."""
        said = {log.name: self.owners[log.name].rank for log in logs if _is_bare(self.owners[log.name])}
        found = {} if self._by_node(logs) else by_numbers(list(said), self.members.world)
        if all(said[name] in (None, rank) for name, (rank, _) in found.items()):
            for name, (rank, how) in found.items():
                self.owners[name] = Writer(key="", rank=rank, name=name, by_words=True)
                self.how[rank] = how

    def _learn_hosts(self, logs: Sequence[Scanned]) -> None:
        """Hosts in the names of logs and folders. If the logs of several hosts share numbers, these are local ranks."""
        hosts: dict[str, str] = {}
        inner: dict[str, Writer] = {}
        owned: dict[str, set[int]] = defaultdict(set)
        for log in logs:
            found = host_in(log.name, self._hosts)
            if found is None:
                continue
            host, number = found
            hosts[log.name] = host
            if number is not None:
                self.members.number(host, number)
            owner = self.owners[log.name]
            within = owner if owner.rank is not None else identify(log.name.lower().partition(host)[2])
            if within.rank is not None and not within.by_words and within.role in (None, "worker", "trainer"):
                inner[log.name] = within
                owned[host].add(within.rank)
        alike = numbered_alike(owned)
        for name, host in hosts.items():
            owner, one = self.owners[name], inner.get(name)
            if one is not None and alike is not None:
                self.owners[name] = replace(one, rank=None, role=None, local=one.rank, node=host)
            elif one is not None and len(owned) > 1:
                self.owners[name] = replace(one, node=host)
            elif owner.rank is None:
                self.owners[name] = replace(owner, node=host)
        if alike is not None:
            self.members.apart = True
            for host in owned if alike else ():
                self.members.say(host, NodeSeen(per_node=alike, count=len(owned)))

    def _by_node(self, logs: Sequence[Scanned]) -> bool:
        """Whether there is a log per node rather than per rank."""
        said = [s.fact for log in logs for s in log.sightings if isinstance(s.fact, NodeSeen)]
        counts = {each.count for each in said if each.count}
        return len(logs) in counts and any((each.per_node or each.devices or 1) > 1 for each in said)

    def node(self, writer: Writer, name: str) -> str:
        """What to call the node that a writer is on: its host, its pod, or its log."""
        owner = self.owners[name]
        if writer.node:
            return short(writer.node)
        if self._prefixes_are_hosts and writer.key and writer.rank is not None and not writer.own:
            return writer.name or writer.key
        return owner.node or name

    def is_a_host(self, writer: Writer) -> bool:
        """Whether a writer's number is that of a node."""
        return self._prefixes_are_hosts and not writer.own and not writer.by_words and not _is_spawned(writer)

    def _learn(self, logs: Sequence[Scanned]) -> None:
        largest = max((s.fact.size for log in logs for s in log.sightings if isinstance(s.fact, CommMember)), default=0)
        tees: dict[str, set[int]] = defaultdict(set)
        for log in logs:
            owner = self.owners[log.name]
            if self._prefixes_are_hosts and owner.rank is not None and not owner.by_words:
                self.members.number(log.name, self._number(owner) or 0)
            for sighting in log.sightings:
                writer = sighting.writer
                if writer.local is None and not isinstance(sighting.fact, _TELLING):
                    continue
                node = self.node(writer, log.name)
                self._learn_one(sighting, node, largest)
                if writer.key and writer.local is not None and owner.node:
                    tees[node].add(writer.local)
        if len(tees) > 1 and set.intersection(*tees.values()):
            self.members.apart = True

    def _learn_one(self, sighting: Sighting, node: str, largest: int) -> None:
        fact, writer = sighting.fact, sighting.writer
        if isinstance(fact, NodeSeen):
            if fact.count is not None or not fact.hosts or not self._present.isdisjoint(map(short, fact.hosts)):
                self.members.say(node, fact)
        elif isinstance(fact, MemberPlaced):
            where = short(fact.node) if fact.node else node
            if fact.node_index is not None:
                self.members.say(where, NodeSeen(index=fact.node_index))
            if fact.rank is not None:
                self.members.place(fact.rank, where, local=fact.local, pid=fact.pid)
        elif isinstance(fact, ProcessExited) and fact.rank is not None and fact.reporter != "torch.multiprocessing":
            where = short(fact.node) if fact.node else node
            self.members.place(fact.rank, where, local=fact.local_rank, pid=fact.pid)
            if fact.node and where != node:
                self.members.place(fact.rank, node, local=fact.local_rank)
        elif isinstance(fact, WorldSeen) and fact.index is not None and fact.pid is not None:
            self.members.place(fact.index, node, pid=fact.pid)
        elif isinstance(fact, CommMember) and fact.size == largest and writer.node:
            self.members.place(fact.index, node, local=writer.local, pid=writer.pid, bus=fact.device)
        if writer.local is not None and writer.key and not writer.node and (own := _OWN_WORD.search(sighting.quote)):
            self.members.place(int(own[1]), node, local=writer.local)

    def rank(self, writer: Writer, name: str) -> KnownRank | None:
        """A writer's rank by its node and its number there, or by its process. None: ask others."""
        owner, node = self.owners[name], self.node(writer, name)
        if writer.own or (writer.rank is not None and not _is_spawned(writer)):
            return None
        if writer.pid is not None and writer.rank is None:
            known = self.members.of_pid(writer.pid, node)
            if known is not None:
                return known
        if owner.rank is not None and not self.is_a_host(owner):
            return None
        local = writer.local if writer.local is not None else owner.local
        if local is None:
            return None
        known = self.members.at(node, local, "device" if writer.node and not writer.key else "local rank")
        if known.rank is None and of_a_launcher(name) and not self.members.several:
            return None
        return known if known.rank is not None or self.members.several else None

    def settled(self, fact: Fact, writer: Writer, name: str, rank: int | None) -> tuple[Fact, KnownRank | None]:
        """A fact with the rank of the process or device that it names, and how that is known."""
        if isinstance(fact, PeerLost):
            peer = self.members.of_node(short(fact.peer)) if fact.peer and fact.peer_rank is None else None
            return (fact, None) if peer is None else (replace(fact, peer_rank=peer.rank), peer)
        known = self._named(fact, writer, name, rank)
        if known is None:
            return fact, None
        return replace(fact, rank=known.rank), known

    def _named(self, fact: Fact, writer: Writer, name: str, rank: int | None) -> KnownRank | None:
        node = self.node(writer, name)
        if isinstance(fact, ProcessExited):
            if fact.reporter == "torch.multiprocessing" and fact.rank is not None and self.members.several:
                return self.members.at(node, fact.rank)
            if fact.rank is None and fact.local_rank is not None and self.members.several:
                return self.members.at(short(fact.node) if fact.node else node, fact.local_rank)
        if fact.rank is not None or rank is not None:
            return None
        if isinstance(fact, OomKilled | FatalSignal | DeviceFault) and fact.pid is not None:
            known = self.members.of_pid(fact.pid, node)
            if known is not None:
                return known
        if isinstance(fact, DeviceFault) and fact.device and ":" in fact.device and "cuda" not in fact.device:
            return self.members.of_bus(fact.device, node)
        if isinstance(fact, DeviceFault | DeviceMemoryExhausted) and fact.device and self.members.several:
            match = _DEVICE.search(fact.device)
            if match and int(match[1]):  # device 0 is every rank's, if each sees only its own
                return self.members.at(node, int(match[1]), "device")
        return None


def _is_bare(owner: Writer) -> bool:
    """Whether the name of a log alone gives no rank."""
    return owner.rank is None or owner.by_words


def _is_spawned(writer: Writer) -> bool:
    return writer.key.startswith(SPAWNED) and writer.local is not None


def _world(logs: Sequence[Scanned]) -> int | None:
    sizes = Counter(
        s.fact.size for log in logs for s in log.sightings if isinstance(s.fact, WorldSeen) and (s.fact.size or 0) > 1
    )
    return sizes.most_common(1)[0][0] if sizes else None
