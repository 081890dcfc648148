# SPDX-License-Identifier: Apache-2.0
"""Which rank wrote each message, from prefixes, file names and the text itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath

from keepstep.analyze.process_places import NAMING, SPAWNED, Places
from keepstep.analyze.task_ranks import How, with_tasks
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import DuplicateMember, WorldSeen
from keepstep.model.facts.guard import RankRaised
from keepstep.model.facts.network import AddressMap, ServerStarted
from keepstep.model.facts.process import ExceptionRaised, ProcessExited, TaskNamed
from keepstep.model.facts.rank_places import MemberPlaced
from keepstep.model.facts.sync import CommMember
from keepstep.model.facts.training import StepSeen
from keepstep.model.identity import Rank
from keepstep.parse.scan.lines.introduction import Introduction
from keepstep.parse.scan.lines.writer import NOBODY, Writer, identify
from keepstep.parse.scan.sighting import Scanned, Sighting
from keepstep.story.who_is_who import KnownRank

OF_MANY = ("launcher.log", "command.log")
"""`keepstep run`'s name for the output of the user's own command. Many ranks may write to it."""
SAME_WORDS = 200
"""This much of a message is compared: guards and parsers cut long ones."""


def attribute(logs: Sequence[Scanned]) -> list[Evidence[Fact]]:
    """Evidence from all logs, each with the rank that wrote it, if known."""
    calls = Counter(log.introduced.rank for log in logs if log.introduced is not None)
    apart = len(calls) > 1 and max(calls.values()) == 1
    owners = {log.name: _owner(log, log.introduced.rank if log.introduced and apart else None) for log in logs}
    writers = [w for log in logs for w in (owners[log.name], *{id(s.writer): s.writer for s in log.sightings}.values())]
    numbering = _Numbering(writers, _Learned(logs))
    places = Places(logs, owners, numbering.number)
    one_host = len({w.node for w in writers if w.node}) <= 1
    evidence: list[Evidence[Fact]] = []
    how = How()
    for log in logs:
        owner = places.owners[log.name]
        known: dict[int, tuple[Rank | None, str]] = {}
        for said, line, writer, at, quote, later in log.sightings:
            if id(writer) not in known:
                own = writer.rank is not None and writer.rank == owner.rank
                stream = "" if own else writer.key
                found = places.rank(writer, log.name)
                known[id(writer)] = numbering.rank(writer, owner, one_host, found, places), stream
                its = known[id(writer)][0]
                if its is not None and found is None:
                    found = numbering.counted_by(writer, owner, its.index, places)
                how.note(found, Origin(source=log.name, line=line, stream=stream))
            rank, stream = known[id(writer)]
            if writer.rank is None and _is_of_another(said, owner):
                rank = None
            origin = Origin(source=log.name, line=line, stream=stream)
            fact, found = said, None
            if isinstance(said, TaskNamed):
                fact, found = numbering.counted(said)
            elif isinstance(said, NAMING):
                fact, found = places.settled(said, writer, log.name, rank.index if rank else None)
            how.note(found, origin)
            evidence.append(Evidence(fact=fact, origin=origin, rank=rank, at=at, quote=quote, later_s=later))
    return in_time_order([*with_tasks(evidence), *how.evidence(), *_claimed_twice(logs)])


def _claimed_twice(logs: Sequence[Scanned]) -> Iterator[Evidence[Fact]]:
    """Ranks by which the writers of two logs call themselves while both write."""
    claims: dict[int, list[tuple[float, float, str, Introduction]]] = {}
    for log in logs:
        times = [s.at for s in log.sightings if s.at is not None]
        if log.introduced is not None and times:
            claims.setdefault(log.introduced.rank, []).append((min(times), max(times), log.name, log.introduced))
    for rank, spans in claims.items():
        spans.sort()
        fact = DuplicateMember(member=str(rank), certain=False)
        for one, other in pairwise(spans):
            for began, _, name, said in (one, other) if other[0] < one[1] else ():
                yield Evidence(fact=fact, origin=Origin(source=name, line=said.line), at=began, quote=said.text)


def with_guards_words(logged: Sequence[Evidence[Fact]], told: Sequence[Evidence[Fact]]) -> list[Evidence[Fact]]:
    """An unsigned traceback belongs to the rank whose guard reported that very exception, if only one did."""
    raised = [(e.fact, e.rank) for e in told if isinstance(e.fact, RankRaised) and e.rank is not None]
    owners: dict[str, list[tuple[range, Rank]]] = {}
    for each in logged if raised else ():
        fact, line = each.fact, each.origin.line
        if each.rank is None and isinstance(fact, ExceptionRaised) and line is not None:
            known = {rank for said, rank in raised if _is_same(said, fact)}
            if len(known) == 1:
                owners.setdefault(each.origin.source, []).append(
                    (range(line, line + max(fact.lines, 1) + 1), known.pop())
                )
    if not owners:
        return list(logged)
    return [
        each
        if each.rank is not None or each.origin.source not in owners
        else replace(each, rank=_within(each.origin, owners))
        for each in logged
    ]


def _is_same(said: RankRaised, fact: ExceptionRaised) -> bool:
    if said.type.rpartition(".")[2] != fact.type.rpartition(".")[2]:
        return False
    length = min(len(said.message), len(fact.message), SAME_WORDS)
    return said.message[:length] == fact.message[:length] and (length > 0 or said.message == fact.message)


def _within(origin: Origin, owners: Mapping[str, Sequence[tuple[range, Rank]]]) -> Rank | None:
    return next((rank for lines, rank in owners.get(origin.source, ()) if origin.line in lines), None)


def _is_of_another(fact: Fact, owner: Writer) -> bool:
    """Whether a launcher means another process than the one that gave its rank in the same log."""
    if not isinstance(fact, ProcessExited) or fact.rank is not None or fact.local_rank is None or not owner.by_words:
        return False
    return owner.rank is not None and fact.local_rank != owner.rank and fact.local_rank > 0


def in_time_order(evidence: list[Evidence[Fact]]) -> list[Evidence[Fact]]:
    """By the clock if every source has one, else source by source as read."""
    timed: dict[str, float] = {}
    for each in evidence:
        if each.at is not None:
            timed.setdefault(each.origin.source, each.at)
    if len(timed) < 2 or any(e.origin.source not in timed for e in evidence):
        return evidence
    now = dict(timed)
    keyed = []
    for number, each in enumerate(evidence):
        source = each.origin.source
        if each.at is not None:
            now[source] = max(each.at, now[source])
        keyed.append((now[source], number, each))
    return [each for _, _, each in sorted(keyed, key=lambda item: item[:2])]


def _owner(log: Scanned, introduced: int | None) -> Writer:
    """Who wrote a whole file: by its name, else by what its single writer says about itself.

    ``introduced``: the rank by which it calls itself at its beginning, where writers of several logs call themselves
    by different ones.
    """
    named = identify(log.name.lower())
    if named.rank is not None or PurePath(log.name).name in OF_MANY:
        return named
    said = Counter(
        (s.fact.index, s.fact.role)
        for s in log.sightings
        if isinstance(s.fact, WorldSeen) and s.fact.index is not None and not s.writer.key
    )
    if len({index for index, _ in said}) == 1:
        index, role = said.most_common(1)[0][0]
        return Writer(key="", rank=index, role=role, name=log.name, by_words=True)
    task = _own_task(log) if not said else None
    if task is not None:
        return Writer(key="", rank=task[1], role=task[0], name=log.name, by_words=True)
    placed = {s.fact.rank for s in log.sightings if isinstance(s.fact, MemberPlaced)}
    counted = (
        set()
        if len(placed) > 1
        else {
            int(found[1])
            for s in log.sightings
            if isinstance(s.fact, StepSeen) and (found := _OF_A_STEP.search(s.quote))
        }
    )
    if len(counted) == 1 and counted != {0}:
        return Writer(key="", rank=counted.pop(), name=log.name, by_words=True)
    if introduced is not None and not said and len(placed) <= 1:
        return Writer(key="", rank=introduced, name=log.name, by_words=True)
    return named


def _own_task(log: Scanned) -> tuple[str, int] | None:
    """The task of a TensorFlow server, by the address it started at and that address's place in the cluster."""
    own = [s for s in log.sightings if not s.writer.key]
    started = {s.fact.address for s in own if isinstance(s.fact, ServerStarted)}
    if len(started) != 1:
        return None
    address = started.pop()
    jobs = {s.fact for s in own if isinstance(s.fact, AddressMap) and s.fact.dense}
    there = {(each.job, each.addresses.index(address)) for each in jobs if each.addresses.count(address) == 1}
    return (
        there.pop() if len(there) == 1 and all(job in ("worker", "ps", "chief", "master") for job, _ in there) else None
    )


_OF_A_STEP = lazy_pattern(r"\brank[ =:] ?(\d{1,5})\b")
"""The rank whose step a progress line shows. Rank 0 alone proves nothing: often only it reports, and all fail."""


_OWN_WORD = lazy_pattern(r"\[(?:PG [^\]]{0,80} )?Rank (\d+)\]")


class _Learned:
    """What the lines themselves say about ranks whose prefix gives only a device, a local rank or a host."""

    def __init__(self, logs: Sequence[Scanned]) -> None:
        self._members: dict[tuple[str, int], tuple[int, int]] = {}
        self._locals: dict[int, set[int]] = {}
        self._failed_first: dict[int, int] = {}
        self._said: dict[str, set[int]] = {}
        self._of_hosts = False
        for log in logs:
            for sighting in log.sightings:
                self._learn(sighting)

    def _learn(self, sighting: Sighting) -> None:
        fact, writer = sighting.fact, sighting.writer
        if isinstance(fact, ProcessExited) and fact.rank is not None and fact.local_rank is not None:
            self._locals.setdefault(fact.local_rank, set()).add(fact.rank)
            if fact.first:
                self._failed_first.setdefault(fact.local_rank, fact.rank)
            several = fact.local_rank > 0 or writer.role is None
            self._of_hosts |= several and not writer.own and writer.rank not in (None, fact.rank)
        if (
            isinstance(fact, ProcessExited)
            and fact.reporter == "torch_xla"
            and fact.rank is not None
            and not writer.own
        ):
            self._of_hosts |= writer.rank not in (None, fact.rank)
        if isinstance(fact, WorldSeen) and fact.index is not None and writer.rank is not None and not writer.own:
            said = self._said.setdefault(writer.key, set())
            said.add(fact.index)
            self._of_hosts |= len(said) > 1
        if writer.local is None:
            return
        if isinstance(fact, CommMember) and writer.node:
            place = writer.node, writer.local
            self._members[place] = max(self._members.get(place, (0, 0)), (fact.size, fact.index))
        elif writer.key and not writer.node:
            own = _OWN_WORD.search(sighting.quote)
            if own:
                self._locals.setdefault(writer.local, set()).add(int(own[1]))

    def is_a_host(self, writer: Writer) -> bool:
        """Whether a prefix's number is that of a host: several ranks write behind it, or others than it says."""
        return self._of_hosts and not writer.own and bool(writer.key)

    def rank(self, writer: Writer, alone: bool) -> int | None:
        """The global rank of a writer whose prefix gives its device or its rank on a host (``alone``: the only one)."""
        if writer.local is None:
            return None
        if writer.node:
            size, index = self._members.get((writer.node, writer.local), (0, 0))
            return index if size and size == max(size for size, _ in self._members.values()) else None
        if not writer.key:
            return None
        known = self._locals.get(writer.local) or (self._by_distance(writer.local) if alone else set())
        return next(iter(known)) if len(known) == 1 else self._failed_first.get(writer.local)

    def _by_distance(self, local: int) -> set[int]:
        """Its local number plus the same offset that the host's other ranks have."""
        distances = {each - here for here, ranks in self._locals.items() for each in ranks}
        return {local + distance for distance in distances or {0}}


class _Numbering:
    """TensorFlow counts within roles; this gives each task one global number: chief, workers, ps, evaluator."""

    def __init__(self, writers: Sequence[Writer], learned: _Learned) -> None:
        self._learned = learned
        highest: dict[str, int] = {}
        for writer in writers:
            if writer.rank is not None and writer.role in ("chief", "master", "worker", "ps"):
                role = "chief" if writer.role == "master" and _has(writers, "worker") else writer.role
                highest[role] = max(highest.get(role, -1), writer.rank)
        self._has_master = any(w.role == "master" for w in writers)
        chiefs = highest.get("chief", -1) + 1
        workers = highest.get("worker", -1) + 1
        self._shift = {"chief": 0, "master": 0, "worker": chiefs, "ps": chiefs + workers}
        self._shift["evaluator"] = chiefs + workers + highest.get("ps", -1) + 1
        if not workers and not chiefs:
            self._shift["ps"] = 0

    def number(self, writer: Writer) -> int | None:
        """A writer's number over all roles."""
        return writer.rank + self._shift.get(writer.role or "", 0) if writer.rank is not None else None

    def counted(self, fact: TaskNamed) -> tuple[Fact, KnownRank | None]:
        """A fact that names a task of a role, with its number over all roles."""
        if fact.rank is None or not self._shift.get(fact.role or ""):
            return fact, None
        known = self._after(fact.rank, self._shift[fact.role or ""])
        return replace(fact, rank=known.rank), known

    def _after(self, worker: int, before: int) -> KnownRank:
        first = "master" if self._has_master else "chief"
        return KnownRank(worker + before, f"worker {worker}, counted after the {first}")

    def counted_by(self, writer: Writer, owner: Writer, rank: int, places: Places) -> KnownRank | None:
        """How the rank is known of one that is counted after other roles, or by the name of its log."""
        source = writer if writer is not NOBODY and writer.rank is not None else owner
        before = self._shift.get(source.role or "", 0)
        if source.rank is not None and before and source.role == "worker":
            return self._after(source.rank, before)
        return KnownRank(rank, places.how[rank]) if source is owner and rank in places.how else None

    def rank(
        self, writer: Writer, owner: Writer, one_host: bool, found: KnownRank | None, places: Places
    ) -> Rank | None:
        source = writer if writer is not NOBODY and writer.rank is not None else owner
        node = writer.node or owner.node
        several = places.members.several
        if found is not None and found.rank is not None:
            return Rank(index=found.rank, node=node, local=writer.local if writer.local is not None else owner.local)
        if several and writer.local is not None and writer.key.startswith(SPAWNED):
            return None
        if places.is_a_host(source):
            return None
        if source.rank is None:
            learned = self._learned.rank(writer, alone=not several)
            if learned is not None:
                return Rank(index=learned, node=node, local=writer.local)
            if writer.key and not writer.node:
                return None
        if source is writer and self._learned.is_a_host(writer):
            return None
        if source.rank is not None:
            index = source.rank + self._shift.get(source.role or "", 0)
            return Rank(index=index, node=node, local=writer.local, role=source.role)
        if writer.local is not None and one_host and not several:
            return Rank(index=writer.local, node=node, local=writer.local)
        return None


def _has(writers: Sequence[Writer], role: str) -> bool:
    return any(w.role == role for w in writers)
