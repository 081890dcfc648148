# SPDX-License-Identifier: Apache-2.0
"""SYN054: in a live job that hangs, ranks wait in different collectives."""

from __future__ import annotations

from collections import defaultdict

from keepstep.base import wording
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, ProcessSeen, lazy_pattern, rule
from keepstep.rules.asking.live_jobs import LiveProcess, jobs, names, stands_still
from keepstep.rules.sync._awaited import by_guards
from keepstep.signals.waits import WaitKind

OF_PARTS = lazy_pattern(r"send|recv", most=80)


@rule(id="SYN054", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(ProcessSeen,), confidence=Confidence.SUPPORTED)
def waits_differ(seen: EvidenceSet) -> Findings:
    """In a live job that hangs, ranks wait in different collectives of the same group.

    ## What it looks like
    The job prints nothing more. Every rank is in a collective, but not in the same one: one rank is
    in `all_reduce` at one line, another in `broadcast` or `barrier` at another line.

    ## Why it happens
    A branch that depends on the rank or on the data (`if rank == 0:`, early stopping, a skipped batch)
    made the ranks call different collectives, or the same ones in a different order.

    ## How we know
    keepstep took the stacks of all processes several times. No rank moved, and their collectives differ. Where the
    guard ran, its record of every group shows whom all ranks wait for. Otherwise a rank is named only if it is alone.

    ## What to do
    Let every rank call the same collectives in the same order; let all ranks agree on which branch to take.

    ## When this is wrong
    Ranks of different process groups (pipeline or tensor parallel) are rightly in different collectives
    while they wait for a rank on another host.
    """
    for job in jobs(seen):
        if len(job) < 2 or not (_all_in_collectives(job) or _some_by_their_device(job)):
            continue
        groups: dict[tuple[object, ...], list[LiveProcess]] = defaultdict(list)
        for each in job:
            wait, lines = each.signature
            # ranks at one line of the program are in the same collective, seen at different depths
            groups[(lines,) if lines else (wait,)].append(each)
        if len(groups) < 2:
            continue
        ordered = sorted(groups.values(), key=len)
        sides = wording.listing(f"{names(group)} in {group[0].where}" for group in ordered[:3])
        awaited = by_guards(seen)
        yield Found(
            title=f"ranks waited in different collectives: {sides}",
            because=(
                awaited.because
                if awaited is not None
                else "each of these ends only when all its ranks have joined it, and no rank moved while we watched"
            ),
            evidence=(*(awaited.shown[:4] if awaited is not None else ()), *(e for each in job for e in each.evidence)),
            ranks=awaited.ranks if awaited is not None else _odd(ordered),
            fixes=(
                Fix(
                    do="look at the branch between these lines, "
                    "and let every rank reach the same collectives in the same order"
                ),
            ),
        )


def _odd(sides: list[list[LiveProcess]]) -> tuple[int, ...] | None:
    """The smaller of two sides, where both may be in collectives of the same ranks; none if unknown, None: all of them.

    On a mesh, ranks rightly are in collectives of several groups, and stacks do not show which group a rank is in.
    """
    few, many = sides[0], sides[-1]
    ops = [{each.wait.name for each in side if each.wait is not None} for side in (few, many)]
    of_parts = any(OF_PARTS.search(op) for side in ops for op in side) or len(sides) > 2
    if of_parts or (len(few) > 1 and ops[0] == ops[1]):
        return ()
    return tuple(each.rank for each in few if each.rank is not None) if len(few) < len(many) else None


def _all_in_collectives(job: list[LiveProcess]) -> bool:
    """Whether every rank is in a collective, and none moved."""
    return stands_still(job) and all(each.wait is not None and each.wait.kind is WaitKind.COLLECTIVE for each in job)


def _some_by_their_device(job: list[LiveProcess]) -> bool:
    """The same where compiled programs run the collectives.

    There the main thread only waits for a result, and wakes now and then. We looked at the threads behind it in one
    rank of each kind; another rank counts if it is at the same line of the program.
    """
    sure = [each for each in job if each.wait is not None and each.wait.kind is WaitKind.COLLECTIVE]
    lines = {each.signature[1] for each in sure}
    if len(lines) < 2 or not all(lines) or not any(each.slept for each in sure):
        return False
    rest = [each for each in job if each not in sure]
    alike = all(each.waits_for_device and each.signature[1] in lines for each in rest)
    return alike and all(each.process.fact.still and not each.busy for each in job)
