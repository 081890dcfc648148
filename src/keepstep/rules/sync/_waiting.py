# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom: what several rules of this family ask about timeouts and progress."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sized

from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import ExceptionRaised, Frame
from keepstep.core.facts.sync import CollectiveProgress, CollectiveTimeout, TimeoutHeardOf
from keepstep.core.facts.training import Phase, PhaseSeen, StepSeen
from keepstep.core.stacks import innermost_user
from keepstep.core.wording import ranks as say_ranks

NEAR = 4
"""The most lines between a watchdog's message and the status that belongs to it."""

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


def group_of(seen: EvidenceSet, evidence: Evidence[CollectiveTimeout]) -> str | None:
    """The process group of a timeout, by its own message or the status line next to it."""
    if evidence.fact.group is not None:
        return evidence.fact.group
    for near in seen.near(evidence, CollectiveProgress, after=NEAR):
        if near.fact.group is not None and near.fact.rank == evidence.fact.rank:
            return near.fact.group
    return None


def entered(seen: EvidenceSet) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ranks whose last collective comes before the one that others of their group wait in, and the rest."""
    groups: dict[str | None, dict[int, CollectiveProgress]] = defaultdict(dict)
    for evidence in seen.all(CollectiveProgress):
        rank = who(evidence)
        if rank is not None:
            groups[evidence.fact.group].setdefault(rank, evidence.fact)
    absent: dict[int, None] = {}
    present: dict[int, None] = {}
    for ranks in groups.values():
        stuck = [
            f.last_completed + 1
            for f in ranks.values()
            if f.last_completed is not None and f.last_enqueued is not None and f.last_enqueued > f.last_completed
        ]
        if not stuck:
            continue
        least = min(stuck)
        for rank, fact in ranks.items():
            if fact.last_enqueued is not None:
                (absent if fact.last_enqueued < least else present)[rank] = None
    return tuple(absent), tuple(r for r in present if r not in absent)


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
