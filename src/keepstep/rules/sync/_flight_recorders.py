# SPDX-License-Identifier: Apache-2.0
"""What flight recorders show, group by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from keepstep.rules.api import DumpUnreadable, Evidence, EvidenceSet, NothingRecorded, RecordedCollective, everyone
from keepstep.signals.stacks import place
from keepstep.story.wait_graph import CollectiveReach, GroupRecords

Entry = Evidence[RecordedCollective]


@dataclass
class RecordedGroup:
    """The recorded collectives of one process group, by rank and sequence number."""

    name: str
    members: tuple[int, ...] = ()
    between: tuple[int, int] | None = None
    """Of the sends and recvs from one rank to another, which are numbered for themselves."""
    by_rank: dict[int, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))
    own_name: bool = False
    """Whether every rank named it for itself: it may be several groups."""

    @property
    def key(self) -> str:
        return f"{self.name} {self.members} {self.between}"

    @property
    def kind(self) -> str:
        """What groups of one axis of a mesh have in common: ``mesh_tp`` of ``5:mesh_tp``."""
        return self.name.partition(":")[2]

    def last(self, rank: int) -> Entry:
        entries = self.by_rank[rank]
        return entries[max(entries)]


def groups(seen: EvidenceSet) -> list[RecordedGroup]:
    """The process groups; the same name with other members is another group."""
    found: dict[object, RecordedGroup] = {}
    for each in seen.all(RecordedCollective):
        rank = each.who
        if rank is None:
            continue
        fact = each.fact
        key = (fact.group, fact.members, fact.between)
        group = found.setdefault(key, RecordedGroup(fact.group, fact.members, fact.between, own_name=fact.own_name))
        group.by_rank[rank][fact.seq] = each
    _add_missing(list(found.values()), recorded(seen), seen.world_size or 0)
    return list(found.values())


def recorded(seen: EvidenceSet) -> set[int]:
    """The ranks whose recorder can be read, even where it is empty."""
    kinds = (RecordedCollective, NothingRecorded)
    return {rank for kind in kinds for each in seen.all(kind) if (rank := each.who) is not None}


def unreadable(seen: EvidenceSet) -> set[int]:
    """The ranks that left a dump which cannot be read."""
    return {rank for each in seen.all(DumpUnreadable) if (rank := each.who) is not None} - recorded(seen)


def _add_missing(found: Iterable[RecordedGroup], here: set[int], world: int) -> None:
    """Ranks without a dump join the groups that lack just as many, where no dump lists the members (gloo).

    All groups along one axis of a mesh have the same size, and the group of all ranks has them all.
    """
    missing = set(everyone(max(world, max(here, default=-1) + 1))) - here
    alike: dict[str, list[RecordedGroup]] = defaultdict(list)
    for group in found:
        if not group.members:
            alike[group.kind or group.name].append(group)
    for groups_of in alike.values():
        size = max(len(group.by_rank) for group in groups_of)
        for group in groups_of:
            lacks = size - len(group.by_rank) if len(groups_of) > 1 else len(missing)
            whole = len(groups_of) > 1 or set(group.by_rank) == here
            if missing and whole and lacks == len(missing):
                group.members = tuple(sorted({*group.by_rank, *missing}))


def records(group: RecordedGroup) -> GroupRecords:
    """For the wait-for graph."""
    reached = {
        rank: {number: _REACHED.get(entry.fact.state, CollectiveReach.SCHEDULED) for number, entry in entries.items()}
        for rank, entries in group.by_rank.items()
    }
    return GroupRecords(group.key, frozenset(group.members), reached, axis="" if group.between else group.kind)


_REACHED = {"completed": CollectiveReach.COMPLETED, "started": CollectiveReach.STARTED}


def is_pending(entry: Entry) -> bool:
    return entry.fact.state != "completed"


def words(entry: Entry) -> str:
    """``all_reduce #6 (train.py:26, in step())``."""
    where = f" ({place(entry.fact.frame)})" if entry.fact.frame else ""
    return f"{called(entry)}{where}"


def called(entry: Entry) -> str:
    """``all_reduce #6``; ``send 0->1``, which has no number of its own."""
    return entry.fact.op if entry.fact.between else f"{entry.fact.op} #{entry.fact.seq}"
