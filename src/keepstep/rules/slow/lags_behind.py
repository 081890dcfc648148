# SPDX-License-Identifier: Apache-2.0
"""SLO009: one rank prints what all print later than the others."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    RankLags,
    Severity,
    Standing,
    duration,
    rule,
)
from keepstep.rules.asking.timelines import LOADING, SAVING, work_in


@rule(
    id="SLO009",
    cause=Cause.SLOW_STRAGGLER,
    needs=(RankLags,),
    severity=Severity.WARNING,
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.GUESS,
)
def lags_behind(seen: EvidenceSet) -> Findings:
    """One rank comes later than all others to what every rank prints, again and again, or once by very long.

    ## What it looks like
    Three ranks print `batch 122 start` at once; the fourth prints it three seconds later, at every batch. Or all ranks
    have read their checkpoint after five minutes, and one after five hours. Nobody reports an error.

    ## Why it happens
    That rank reads from a slower disk or link, shares its device or host, or has more work than the others.

    ## How we know
    From the times of the same message with the same numbers in every rank's output. A clock that is late would be late
    in every message; this rank is not.

    ## What to do
    Look at that rank's host while it lags: its disk, its network, its device's clocks, other processes.

    ## When this is wrong
    That rank does work that the others leave to it.
    """
    for each in seen.all(RankLags):
        fact = each.fact
        once = fact.rounds == 1
        of_files = work_in(fact.text) in (SAVING, LOADING)
        often = "" if once else f", in {fact.rounds} of {fact.of} rounds"
        yield Found(
            title=f"rank {fact.rank} was {duration(fact.by_s)} later than all other ranks{often}",
            because="it printed the same message as they did, that much later; its clock agrees elsewhere",
            evidence=(each,),
            ranks=(fact.rank,) if fact.rank is not None else (),
            cause=Cause.CHECKPOINT_SLOW_IO_TIMEOUT if of_files else None,
            confidence=Confidence.HYPOTHESIS,
            fixes=(
                Fix(
                    do="look at that rank while it lags: where it is, and what its host does",
                    command="keepstep why --live",
                ),
            ),
        )
