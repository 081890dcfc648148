# SPDX-License-Identifier: Apache-2.0
"""SYN069: a rank of the world left no trace, and the world was never formed."""

from __future__ import annotations

from keepstep.model.facts import Fact, RankDoing, RankEnded, RanksArriving, WorldFormed
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, duration, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.waits_at_start import missing_from, ranks_started, still_waiting
from keepstep.story.rank_endings import ends_of, is_supervised

STARTS_S = 20.0
"""How long the other ranks may wait for one that is still starting."""


@rule(
    id="SYN069",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(RankDoing, RankEnded, RanksArriving),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
)
def rank_left_no_trace(seen: EvidenceSet) -> Findings:
    """A rank of the world never arrived, and the others waited for it.

    ## What it looks like
    The folder holds two of three black boxes; both end, or are stuck, before the first step.

    ## Why it happens
    The rank was not started, its host is down, or it failed before it had imported its framework.

    ## How we know
    The other ranks know the size of the world from their environment variables. A rank with a guard leaves a black
    box as soon as it imports its framework; this one left none, and the world was never formed.

    ## What to do
    Check whether the rank was started at all, and read its output.

    ## When this is wrong
    The rank writes to another folder or host, and the ranks never met for another reason.
    """
    started = ranks_started(seen)
    late = [
        e
        for e in still_waiting(seen)
        if missing_from(seen, e) and not (e.fact.twice or e.fact.sizes or e.fact.elsewhere)
    ]
    if started is not None and late and late[0].fact.size <= started:
        last = max(late, key=lambda e: e.fact.seconds)
        yield _started_and_did_not_come(last, missing_from(seen, last))
        return
    ends = seen.once(ends_of)
    if is_supervised(seen) or not ends.missing or any(e.fact.size > 1 for e in seen.all(WorldFormed)):
        return
    waiting = [e for e in seen.all(RankDoing) if e.fact.alive]
    if waiting and max(e.fact.silent_s or 0.0 for e in waiting) < STARTS_S:
        return
    came = {e.who: e for e in (*seen.all(RankEnded), *seen.all(RankDoing)) if e.who is not None}
    evidence: tuple[Evidence[Fact], ...] = tuple(came[who] for who in sorted(came))[:8]
    yield Found(
        title=(
            f"{say_ranks(ends.missing)} never arrived: {len(came)} of {ends.world} ranks left a black box, "
            "and they never met"
        ),
        because=(
            f"{say_ranks(tuple(sorted(came)))} started but the world was never formed, "
            f"and {say_ranks(ends.missing)} left no trace here"
        ),
        evidence=evidence,
        ranks=ends.missing,
        fixes=(
            Fix(do="check whether it was started, and read what it printed"),
            Fix(do="count the processes on every host and compare with the world size", command="pgrep -af python"),
        ),
    )


def _started_and_did_not_come(last: Evidence[RanksArriving], missing: tuple[int, ...]) -> Found:
    return Found(
        title=(
            f"{say_ranks(missing)} did not arrive at {last.fact.at}, "
            f"where the other ranks had waited for {duration(last.fact.seconds)}"
        ),
        because="keepstep run started every rank, so a rank that has not joined the others hangs or is slow to start",
        evidence=(last,),
        ranks=missing[:8],
        fixes=(Fix(do="print the line it is at while it hangs", command="keepstep why --live"),),
    )
