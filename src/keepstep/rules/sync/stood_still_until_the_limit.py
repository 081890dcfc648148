# SPDX-License-Identifier: Apache-2.0
"""SYN211: the run had stopped making steps long before its time was over."""

from __future__ import annotations

from keepstep.model.facts import Fact, Preempted, StepSeen, TerminationRequested
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, duration, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.timelines import AT_ONCE_S, STILL_S, behind, elsewhere, late, stood_still, waits_in_words

Ended = Evidence[Preempted] | Evidence[TerminationRequested]
MOST = 2
"""Of more busy ranks than this none keeps the others waiting."""


@rule(
    id="SYN211",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(Preempted, TerminationRequested),
    confidence=Confidence.SUPPORTED,
    standing=Standing.EXCEPTION,
    explains=(Cause.PREEMPTION_SIGTERM,),
)
def stood_still_until_the_limit(seen: EvidenceSet) -> Findings:
    """The ranks had stopped making steps long before the scheduler ended the run.

    ## What it looks like
    Steps come every second, then none for an hour, without an error. At last Slurm writes `CANCELLED AT ... DUE TO
    TIME LIMIT`.

    ## Why it happens
    A rank stopped: it waits for a file, a lock or a collective that the others never enter. The others wait for it, and
    nothing limits their wait.

    ## How we know
    The times of the steps and of the scheduler's message. The pause is many times longer than any step before it, and
    no rank said that it was saving or evaluating.

    ## What to do
    Find out where the ranks are while they still hang. More time would not help.

    ## When this is wrong
    The output was buffered, or the program prints no steps in its last phase.
    """
    ends: list[Ended] = [*seen.all(Preempted), *(e for e in seen.all(TerminationRequested) if _from_outside(e.fact))]
    for ended in ends:
        kept = _kept_waiting(seen, ended) if not seen.survived(ended) else None
        if kept is not None:
            yield kept
            return
        found = stood_still(seen, ended.at) if not seen.survived(ended) else None
        if found is None:
            continue
        last, still = found
        slow = behind(seen)
        few: tuple[Evidence[Fact], ...] = slow or elsewhere(seen)
        ranks = tuple(e.who for e in few if e.who is not None)
        how = "got less far than the others" if slow else "printed something that no other rank did"
        what = "step" if isinstance(last.fact, StepSeen) else "line of output"
        if what != "step" and _whatever_it_did(ended.fact):
            continue
        yield Found(
            title=f"no {what} came for {duration(still)} before {_by(ended)} ended the run",
            because=f"the last {what} came {duration(still)} before that; all earlier ones followed each other quickly"
            + (f", and {say_ranks(ranks)} {how}" if ranks else ""),
            evidence=(last, *few[:2], ended),
            ranks=ranks,
            confidence=Confidence.SUPPORTED if what == "step" else Confidence.HYPOTHESIS,
            fixes=_FIXES,
        )
        return


_FIXES = (
    Fix(
        do="the next time it hangs, look before it ends: this names the rank that the others wait for",
        command="keepstep why --live",
    ),
    Fix(do="let a hang end the run within minutes", command="keepstep run -n N -- python train.py"),
)


def _from_outside(fact: TerminationRequested) -> bool:
    return fact.by == "scheduler" or (fact.signal == "SIGINT" and fact.by in (None, "user"))


def _whatever_it_did(fact: Preempted | TerminationRequested) -> bool:
    """Whether the run was ended for a reason that has nothing to do with how it got on: mere silence explains none."""
    return isinstance(fact, Preempted) and fact.reason is not None and "limit" not in fact.reason


def _by(ended: Ended) -> str:
    if isinstance(ended.fact, Preempted):
        return ended.fact.by
    return "the scheduler" if ended.fact.by == "scheduler" else "somebody"


def _kept_waiting(seen: EvidenceSet, ended: Ended) -> Found | None:
    """All ranks but one or two ended with words about a wait, and these were still busy, long before the end."""
    waiting = waits_in_words(seen)
    busy = late(seen, set(waiting))
    if not waiting or not 0 < len(busy) <= MOST or ended.at is None:
        return None
    ranks = tuple(each.rank for each in busy)
    until = ended.at - AT_ONCE_S
    timed = [e for e in seen.items if e.at is not None and e.at < until and e.who in ranks]
    last = max(timed, key=lambda e: e.at or 0.0, default=None)
    if last is None or last.at is None or ended.at - last.at < STILL_S:
        return None
    return Found(
        title=f"{say_ranks(waiting)} waited for {say_ranks(ranks)}, still {busy[0].doing}, "
        f"until {_by(ended)} ended the run",
        because=f"the last words of {say_ranks(waiting)} are about a wait; the last time that "
        f"{say_ranks(ranks)} noted is {duration(ended.at - last.at)} before the end",
        evidence=(*(each.evidence for each in busy), last, *list(waiting.values())[:2], ended),
        ranks=ranks,
        fixes=_FIXES,
    )
