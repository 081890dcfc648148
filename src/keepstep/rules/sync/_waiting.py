# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom: what several rules of this family ask about timeouts and progress."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sized

from keepstep.model.facts import (
    CollectiveProgress,
    CollectiveTimeout,
    ExceptionRaised,
    Fact,
    Frame,
    Phase,
    PhaseSeen,
    StepSeen,
    TimeoutHeardOf,
)
from keepstep.rules.api import Evidence, EvidenceSet, lazy_pattern
from keepstep.rules.api import ranks as say_ranks
from keepstep.signals.stacks import innermost_user
from keepstep.story.wait_graph import CollectiveReach, GroupRecords, origins

NEAR = 4
"""The most lines between a watchdog's message and the status that belongs to it."""

_NAMED = lazy_pattern(r"PG GUID (?P<name>[^\s()]{1,100})(?:\((?P<kind>[^)]{0,100})\))?")

BUSY = (Phase.SAVING, Phase.EVALUATING, Phase.LOADING, Phase.RESTORING, Phase.COMPILING, Phase.STOPPING_EARLY)


def was(members: Sized) -> str:
    """The verb for one rank, or for several."""
    return "was" if len(members) == 1 else "were"


def differing(members: Collection[int]) -> str:
    """``rank 2 differs``, ``ranks 0 and 1 differ``."""
    return f"{say_ranks(members)} {'differs' if len(members) == 1 else 'differ'}"


def who(evidence: Evidence[Fact]) -> int | None:
    """The global rank: a rank within a group and a local rank are never larger than it.

    A line with a prefix says which rank printed it; the rank of a whole file only counts where the
    text names none.
    """
    stated = evidence.fact.rank
    printed = evidence.rank.index if evidence.rank is not None else None
    if stated is None or printed is None:
        return stated if printed is None else printed
    if evidence.fact.of_a_part:
        return printed
    if not evidence.origin.stream:
        return stated
    return max(stated, printed)


def waiting(seen: EvidenceSet) -> dict[int, list[Evidence[CollectiveTimeout]]]:
    """Timeouts by the rank that had them, in order."""
    found: dict[int, list[Evidence[CollectiveTimeout]]] = defaultdict(list)
    for evidence in seen.all(CollectiveTimeout):
        rank = who(evidence)
        if rank is not None:
            found[rank].append(evidence)
    for heard in seen.all(TimeoutHeardOf):
        if heard.fact.of is not None:
            found.setdefault(heard.fact.of, [])
    return dict(found)


def group_name(group: str) -> str:
    """``5:mesh_tp``, as flight recorders name it, of the watchdog's ``2 PG GUID 5(mesh_tp)``."""
    match = _NAMED.search(group)
    if match is None:
        return group
    return f"{match['name']}:{match['kind']}" if match["kind"] not in (None, "", "undefined") else match["name"]


def group_of(seen: EvidenceSet, evidence: Evidence[CollectiveTimeout]) -> str | None:
    """The process group of a timeout, by its own message or the status line next to it."""
    if evidence.fact.group is not None:
        return _known_as(seen, evidence, evidence.fact.group)
    for near in seen.near(evidence, CollectiveProgress, after=NEAR):
        if near.fact.group is not None and near.fact.rank == evidence.fact.rank:
            return _known_as(seen, evidence, near.fact.group)
    return None


def _known_as(seen: EvidenceSet, evidence: Evidence[Fact], group: str) -> str:
    """The group's name; where processes number their groups for themselves, equal numbers are not the same group."""
    name = group_name(group)
    return f"{name} of rank {who(evidence)}" if name in seen.once(_own_numbers) else name


def _own_numbers(seen: EvidenceSet) -> set[str]:
    """Names under which two processes have the same rank within the group: then they are in different groups."""
    within: dict[tuple[str, int], set[int]] = defaultdict(set)
    stated: tuple[Evidence[CollectiveTimeout | CollectiveProgress], ...] = (
        *seen.all(CollectiveTimeout),
        *seen.all(CollectiveProgress),
    )
    for each in stated:
        group = each.fact.group
        if group is not None and each.fact.rank is not None and each.rank is not None and each.fact.of_a_part:
            within[group_name(group), each.fact.rank].add(each.rank.index)
    return {name for (name, _), ranks in within.items() if len(ranks) > 1}


def entered(seen: EvidenceSet) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ranks that all waits lead to, through all groups, by what watchdogs print; and those that came."""
    groups: dict[str | None, GroupRecords] = {}

    def of(group: str | None, rank: int) -> dict[int, CollectiveReach]:
        axis = (group or "").partition(":")[2]
        return groups.setdefault(group, GroupRecords(str(group), axis=axis)).by_rank.setdefault(rank, {})

    for each in seen.all(CollectiveProgress):
        rank, fact = who(each), each.fact
        if rank is None or each.origin.line is None or fact.last_enqueued is None:
            continue  # what a dump says is followed with the dump's own entries
        records = of(_known_as(seen, each, fact.group) if fact.group is not None else None, rank)
        if not records:
            last = fact.last_enqueued
            done = last if fact.last_completed is None else fact.last_completed
            first = done + 1 if done >= 0 else min(1, last)  # numbers begin with 1, in old versions with 0
            records.update({first: CollectiveReach.SCHEDULED, last: CollectiveReach.SCHEDULED} if last > done else {})
            records.update({done: CollectiveReach.COMPLETED} if done >= 0 else {})
    for rank, events in waiting(seen).items():
        for timed in events:
            group, number = group_of(seen, timed), timed.fact.seq
            if group is not None and number is not None and not (records := of(group, rank)):
                records[number] = CollectiveReach.SCHEDULED
    found = origins(groups.values())
    began = (found.astray,) if found.astray is not None else found.sources
    return tuple(source.rank for source in began), tuple(sorted({r for g in groups.values() for r in _came(g)}))


def _came(group: GroupRecords) -> Iterator[int]:
    """The ranks that have reached the first collective that any rank of the group waits in."""
    first = min((n for rank in group.by_rank if (n := group.first_pending(rank)) is not None), default=None)
    if first is not None:
        yield from (rank for rank in group.by_rank if group.reached(rank, first) is not CollectiveReach.MISSING)


def occupied(seen: EvidenceSet, timed_out: set[int]) -> tuple[Evidence[Fact], ...]:
    """What the ranks that did not time out last said they were doing."""
    found: dict[int | None, Evidence[Fact]] = {}
    for phase in seen.all(PhaseSeen):
        if phase.fact.phase in BUSY and who(phase) not in timed_out:
            found[who(phase)] = phase
    for step in seen.all(StepSeen):
        if who(step) is not None and who(step) not in timed_out:
            found.setdefault(who(step), step)
    return tuple(found.values())


def others(seen: EvidenceSet, timed_out: set[int]) -> tuple[int, ...]:
    """Ranks of the world that did not time out, as far as the world is known."""
    known = set(seen.ranks) | timed_out
    size = seen.world_size or (max(known) + 1 if known else 0)
    return tuple(r for r in range(min(size, 4096)) if r not in timed_out)


def failed_at(seen: EvidenceSet, rank: int) -> Frame | None:
    """The line of the user's code in which the rank's own exception was raised."""
    own = [e for e in seen.all(ExceptionRaised) if e.who == rank and not e.fact.logged and not e.fact.chained]
    return innermost_user(reversed(own[-1].fact.frames)) if own else None


def also_there(seen: EvidenceSet, timed_out: set[int]) -> set[int]:
    """Ranks that did not time out but failed at the same line as those that did: they had arrived."""
    lines = {(line.file, line.line) for rank in timed_out if (line := failed_at(seen, rank)) is not None}
    rest = set(seen.ranks) - timed_out if lines else set()
    return {rank for rank in rest if (line := failed_at(seen, rank)) is not None and (line.file, line.line) in lines}
