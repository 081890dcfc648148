# SPDX-License-Identifier: Apache-2.0
"""SYN071: every rank waited until its time limit, but not in the same collective."""

from __future__ import annotations

from keepstep.model.facts import CollectiveMismatch, CollectiveTimeout, ExceptionRaised, StackDump
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.sync._stopping_places import RankPlace, listing, places
from keepstep.rules.sync._waiting import group_of, others

MOST_SIDES = 3
MOST_SHOWN = 8


@rule(
    id="SYN071",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(ExceptionRaised, StackDump),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.FRAMEWORK_BUG_SEGFAULT),
)
def places_differ(seen: EvidenceSet) -> Findings:
    """Every rank waited in a collective until its time limit, and they were not in the same one.

    ## What it looks like
    All ranks print the same message: `Timed out waiting 1800000ms for recv operation`, or the watchdog's. Their
    tracebacks or stacks end at different lines: `all_gather` in `evaluate.py` on most ranks, `all_reduce` in
    `train.py` on one.

    ## Why it happens
    A branch that depends on the rank or its data (a number of steps, early stopping, `if rank == 0`) led one rank
    past a collective that the others entered. From then on they wait for each other.

    ## How we know
    A collective such as all_reduce ends only when every rank has entered it. So ranks of one group can never
    be in two of them at once, unless they called different ones. Each rank's traceback, faulthandler or py-spy stack
    shows the call, and the innermost line of your own code says where it was made.

    ## What to do
    Look at the branch between the two lines, and let all ranks take the same one.

    ## When this is wrong
    Ranks of different process groups (tensor, pipeline) may be in different collectives while one rank is late. We
    compare no point-to-point calls and no groups that are known to differ. A rank may leave broadcast, gather,
    scatter and reduce before the others arrive, so those are only a hypothesis.
    """
    here = places(seen)
    if len(here) < 2 or seen.all(CollectiveMismatch) or others(seen, set(here)):
        return
    if not all(p.in_collective and p.sure and not p.point_to_point for p in here.values()) or _several_groups(seen):
        return
    sides = _sides(here)
    if len(sides) < 2 or all(p.in_program for p in here.values()):
        return
    odd = sides[-1] if len(sides[-1]) < len(sides[0]) else [p for side in sides for p in side]
    yield Found(
        title=f"ranks waited for each other at different places: {listing(sides[:MOST_SIDES])}",
        because="each of these calls returns only when every rank has made it, and no rank was anywhere else",
        evidence=tuple(p.shown for side in reversed(sides) for p in side)[:MOST_SHOWN],
        ranks=tuple(sorted(p.rank for p in odd)) if len(odd) <= 2 or len(odd) * 2 < len(here) else (),
        confidence=Confidence.SUPPORTED if _certain(seen, sides) else Confidence.HYPOTHESIS,
        fixes=(
            Fix(do="look for the branch that led to these two lines, and let every rank take the same one"),
            Fix(
                do="have PyTorch compare every collective between ranks and name the first that differs",
                command="export TORCH_DISTRIBUTED_DEBUG=DETAIL",
            ),
        ),
    )


def _sides(here: dict[int, RankPlace]) -> list[list[RankPlace]]:
    """The ranks at each place, the most first. The ends of one broadcast are one place, wherever they are called."""
    found: dict[object, list[RankPlace]] = {}
    for rank in sorted(here):
        at = here[rank]
        found.setdefault(at.op if at.rooted else (at.op, at.line), []).append(at)
    return sorted(found.values(), key=len, reverse=True)


def _certain(seen: EvidenceSet, sides: list[list[RankPlace]]) -> bool:
    """Whether nobody can have left one of these before the others came, and all ranks take part in each."""
    first = [side[0] for side in sides]
    if any(p.rooted or p.of_a_part or p.in_program or p.user is None for p in first):
        return False
    if len({p.op for p in first}) < len(first) and _numbers_agree(seen):
        return False
    return len({(p.op, p.function) for p in first}) == len(first)


def _numbers_agree(seen: EvidenceSet) -> bool:
    """Whether the watchdogs name one collective of one size on all ranks, so the hosts may only be further on."""
    timed = [e.fact for e in seen.all(CollectiveTimeout) if e.fact.seq is not None and e.fact.op is not None]
    return len({(fact.op, fact.seq, fact.numel_in) for fact in timed}) == 1


def _several_groups(seen: EvidenceSet) -> bool:
    timed = [e for e in seen.all(CollectiveTimeout) if not seen.survived(e)]
    return len({group for e in timed if (group := group_of(seen, e)) is not None}) > 1
