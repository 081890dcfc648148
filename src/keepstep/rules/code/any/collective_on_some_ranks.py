# SPDX-License-Identifier: Apache-2.0
"""COD001: a collective that only some ranks issue."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import decided, diverging, reached_by, short


@rule(id="COD001", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeDiverges,), confidence=Confidence.SUPPORTED)
def collective_on_some_ranks(seen: EvidenceSet) -> Findings:
    """A collective is under a condition that differs by rank, and the other ranks do not issue it.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def save(model, path):
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), path)
            dist.barrier()
    ```

    ## Why it happens
    A collective completes when all ranks have issued it. Rank 0 waits for ever in one that the others never issue; or
    they match it with their next one, and the numbers are wrong from there on.

    ## How we know
    The order of collectives is followed on rank 0 and on another rank, through the functions that are called. Here the
    two differ.

    ## What to do
    ```python
    import torch.distributed as dist

    def save(model, path):
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), path)
        dist.barrier()
    ```

    ## When this is wrong
    When the condition is the same on all ranks after all, or the others issue the collective in code that was not
    read.
    """
    for each in diverging(seen, ["collective"], ["branch"]):
        fact = each.fact
        yield Found(
            title=f"{short(fact.collective)} is issued by some ranks only",
            because=f"under `{fact.condition}` ({decided(fact)}) only some ranks reach"
            f" {short(fact.collective)}{reached_by(fact)}; they wait there for the others, which never issue it",
            evidence=(each,),
            fixes=(Fix(do="move the collective out of the condition: all ranks must issue it"),),
        )
