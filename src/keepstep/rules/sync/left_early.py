# SPDX-License-Identifier: Apache-2.0
"""SYN050: one rank decided on its own to stop, and the others continued."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTimeout, GroupShutDown, PeerLost, Phase, PhaseSeen, RanksMissing
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks


@rule(
    id="SYN050",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(PhaseSeen,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.DATA_SHARDING_UNEVEN_OR_EMPTY),
)
def left_early(seen: EvidenceSet) -> Findings:
    """One rank decided on its own to stop, while the others continued to the next collective.

    ## What it looks like
    A rank prints `Early stopping conditions are met`; then the others find the group shut down, time out
    in a collective or lose that peer.

    ## Why it happens
    Only one rank evaluates, and its decision to stop is not shared with the others.

    ## How we know
    Some ranks said that they were stopping. The others did not, and then failed in a collective.

    ## What to do
    Broadcast the decision, so all ranks leave the loop at the same step.

    ## When this is wrong
    All ranks stopped at the same step, and the failure afterwards has a reason of its own.
    """
    stops = [e for e in seen.all(PhaseSeen) if e.fact.phase is Phase.STOPPING_EARLY and not seen.survived(e)]
    if not stops:
        return
    kinds = (GroupShutDown, CollectiveTimeout, RanksMissing, PeerLost)
    stopped = {e.who for e in stops}
    stuck = [
        e for kind in kinds for e in seen.all(kind)
        if e.who is None or e.who not in stopped or None in stopped
    ]  # fmt: skip
    if not stuck:
        return
    ranks = tuple(sorted(n for n in stopped if n is not None))
    yield Found(
        title=f"{say_ranks(ranks) if ranks else 'one rank'} stopped early while the other ranks kept training",
        because="the decision to stop was not shared with the other ranks",
        evidence=(*stops[:2], *stuck[:4]),
        ranks=ranks or None,
        fixes=(
            Fix(
                do="broadcast the decision, so all ranks stop at the same step",
                code="stop = torch.tensor(stop); dist.broadcast(stop, 0)  # Horovod: hvd.broadcast(stop, 0)",
            ),
        ),
    )
