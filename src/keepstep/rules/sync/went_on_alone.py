# SPDX-License-Identifier: Apache-2.0
"""SYN213: one rank went on to something that no other rank reached, and all logs stop there."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, WentOnAlone, count, rule


@rule(
    id="SYN213",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(WentOnAlone,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.GUESS,
)
def went_on_alone(seen: EvidenceSet) -> Findings:
    """One rank went on to what no other rank reached, and then all logs stop: the ranks seem to wait for each other.

    ## What it looks like
    Both ranks print `batch 360`. One of them goes on with `end of epoch 0`, `resetting data loader`; the other is never
    heard of again. Nobody reports an error.

    ## Why it happens
    The ranks no longer do the same: one has fewer batches, left a loop early, or took another branch. It waits in one
    collective, the others in another.

    ## How we know
    Until there this rank printed only what all print. Its last lines came from no other rank. Nothing says that the run
    ended.

    ## What to do
    Make all ranks leave a loop at the same step, and give all of them equally many batches.

    ## When this is wrong
    That rank alone has something to do at that point by design, or the logs were copied while the run went on.
    """
    alone = seen.all(WentOnAlone)
    ranks = {e.fact.rank for e in alone}
    if len(ranks) != 1:
        return
    rank = alone[0].fact.rank
    others = count(alone[0].fact.others, "other rank")
    yield Found(
        title=f"rank {rank} went on to what the {others} never reached, and then nothing moved",
        because="its last lines came from no other rank, and nothing says that the run ended",
        evidence=alone,
        ranks=(rank,) if rank is not None else (),
        fixes=(
            Fix(do="make all ranks leave the loop at the same step: equally many batches, or Join"),
            Fix(do="if it hangs again, see where each rank is", command="keepstep why --live"),
        ),
    )
