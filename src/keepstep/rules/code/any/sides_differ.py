# SPDX-License-Identifier: Apache-2.0
"""COD004: two sides of a branch issue different collectives."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import decided, diverging, reached_by, short


@rule(id="COD004", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeDiverges,), confidence=Confidence.SUPPORTED)
def sides_differ(seen: EvidenceSet) -> Findings:
    """Both sides of a rank-dependent branch issue collectives, but not the same ones.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def share(config, rank):
        if rank == 0:
            dist.broadcast(config, src=0)
        else:
            dist.all_reduce(config)
    ```

    ## Why it happens
    Collectives are matched by their order, not by their names. A broadcast on one side and an all_reduce on the other
    hang, fail, or exchange garbage.

    ## How we know
    The order of collectives is followed on rank 0 and on another rank, through the functions that are called. Here the
    two differ.

    ## What to do
    ```python
    import torch.distributed as dist

    def share(config, rank):
        if rank == 0:
            dist.broadcast(config, src=0)
        else:
            dist.broadcast(config, src=0)
    ```

    ## When this is wrong
    When the two go over different groups of ranks in a way that the code does not show.
    """
    for each in diverging(seen, ["collective", "forward", "backward", "save", "checkpoint", "group"], ["sides"]):
        fact = each.fact
        yield Found(
            title=f"ranks issue different collectives: {short(fact.collective)} here, {short(fact.other)} elsewhere",
            because=f"under `{fact.condition}` ({decided(fact)}) some ranks issue"
            f" {short(fact.collective)}{reached_by(fact)}, while the others issue {short(fact.other)}"
            f" (line {fact.other_line})",
            evidence=(each,),
            fixes=(Fix(do="issue the same collectives in the same order on both sides"),),
        )
