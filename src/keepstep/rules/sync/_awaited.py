# SPDX-License-Identifier: Apache-2.0
"""Whom all ranks wait for in the end, by what guards and stacks show: other readers of the wait-for graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keepstep.rules.api import CollectivesIssued, Evidence, EvidenceSet, RankDoing, StackDump
from keepstep.rules.api import ranks as say_ranks
from keepstep.signals.collective_history import SCRIPTS
from keepstep.signals.waits import awaits_others, waits_in
from keepstep.story.wait_graph import CollectiveReach, GroupRecords, Origins, origins

Noted = Evidence[CollectivesIssued]


@dataclass(frozen=True)
class Awaited:
    """The ranks that all waits lead to, and the notes that show it."""

    ranks: tuple[int, ...]
    shown: tuple[Noted, ...]
    because: str


def by_guards(seen: EvidenceSet) -> Awaited | None:
    """By the numbers that the guards noted when no rank moved any more; None: they do not show it."""
    return seen.once(_by_guards)


def _by_guards(seen: EvidenceSet) -> Awaited | None:
    notes = _newest(seen)
    if len(notes) < 2 or not _are_fresh(seen, notes):
        return None
    groups: dict[object, GroupRecords] = {}
    for rank, by_group in notes.items():
        for note in by_group.values():
            fact = note.fact
            group = groups.setdefault(
                (fact.group, fact.members),
                GroupRecords(f"{fact.group} {fact.members}", frozenset(fact.members), axis=fact.axis),
            )
            group.by_rank[rank] = {
                number: CollectiveReach.COMPLETED
                if fact.done is not None and number <= fact.done
                else CollectiveReach.SCHEDULED
                for number, *_ in fact.issued
            }
    found = origins(groups.values(), notes, _waiting(seen, notes))
    ranks = (found.astray.rank,) if found.astray is not None else tuple(each.rank for each in found.sources)
    if not ranks:
        return None
    shown = [note for rank in ranks for note in notes[rank].values()]
    return Awaited(
        ranks, tuple(shown), f"all waits lead to {say_ranks(ranks)}, which did not join {_words(found, notes)}"
    )


def _words(found: Origins, notes: Mapping[int, Mapping[str, Noted]]) -> str:
    source = found.astray or found.sources[0]
    name = source.at.group.partition(" ")[0]
    known = [notes[rank][name] for rank in source.waiting if name in notes.get(rank, {})]
    words = next((each[2] for note in known for each in note.fact.issued if each[0] == source.at.number), "")
    axis = next((f":{note.fact.axis}" for note in known if note.fact.axis), "")
    return f"{words or 'collective'} #{source.at.number} of group {name}{axis}"


def _newest(seen: EvidenceSet) -> dict[int, dict[str, Noted]]:
    """The last note of each rank about each group whose members are known."""
    found: dict[int, dict[str, Noted]] = {}
    for note in sorted(seen.all(CollectivesIssued), key=lambda each: each.at or 0.0):
        if note.who is not None and note.fact.group != SCRIPTS and note.fact.members:
            found.setdefault(note.who, {})[note.fact.group] = note
    return found


def _are_fresh(seen: EvidenceSet, notes: Mapping[int, Mapping[str, Noted]]) -> bool:
    """Whether no rank has made a step since: a guard notes only its first standstills."""
    steps = {each.who: each.fact.steps for each in seen.all(RankDoing)}
    return all(
        max(note.fact.steps for note in by_group.values()) == steps.get(rank) for rank, by_group in notes.items()
    )


def _waiting(seen: EvidenceSet, notes: Mapping[int, Mapping[str, Noted]]) -> set[int]:
    """Ranks that wait for others: by their guards, or by their stacks, which were taken later."""
    found = {rank for rank, by_group in notes.items() if any(note.fact.waits for note in by_group.values())}
    for stack in seen.all(StackDump):
        if stack.who is not None and stack.fact.living and stack.fact.current:
            (found.add if awaits_others(waits_in(stack.fact.frames)) else found.discard)(stack.who)
    return found


def by_steps(doing: Mapping[int, Evidence[RankDoing]]) -> tuple[int, ...]:
    """By black boxes that count only steps: a rank in a step is in a collective with the number of that step."""
    reached = {
        rank: {each.fact.steps: CollectiveReach.COMPLETED}
        | ({each.fact.steps + 1: CollectiveReach.SCHEDULED} if each.fact.phase == "compute" else {})
        for rank, each in doing.items()
    }
    found = origins([GroupRecords("steps", frozenset(reached), reached)])
    if found.sources:
        return tuple(source.rank for source in found.sources)
    behind = tuple(sorted({rank for each in found.stuck for rank in each.unfinished}))
    return behind if len(behind) <= len(doing) / 2 else ()
