# SPDX-License-Identifier: Apache-2.0
"""COD118: the optimizer steps a different number of times on each rank."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.code._asking import blocks, is_on_some_ranks, program


@rule(id="COD118", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def accumulation_differs(seen: EvidenceSet) -> Findings:
    """The optimizer's step is under a condition, or in a loop, that differs by rank.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def train(model, loader, optimizer):
        every = 4 if dist.get_rank() == 0 else 8
        for number, batch in enumerate(loader, start=1):
            model(batch).sum().backward()
            if number % every == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Why it happens
    The replicas are equal because all of them apply the same gradients equally often. A rank that steps more often
    has other weights from then on.

    ## How we know
    The condition around the step is made from the rank.

    ## What to do
    ```python
    import torch.distributed as dist

    def train(model, loader, optimizer):
        every = 4
        for number, batch in enumerate(loader, start=1):
            model(batch).sum().backward()
            if number % every == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## When this is wrong
    When each rank trains a model of its own.
    """
    known = program(seen)
    for each in known.methods("step"):
        name = each.fact.on.text.lower() if each.fact.on is not None else ""
        if not ("optim" in name or name in ("opt", "scaler")) or not is_on_some_ranks(each):
            continue
        ranked = [block for block in blocks(each, "if", "else") if block.ranked]
        yield Found(
            title="the optimizer does not step equally often on all ranks",
            because=f"`{ranked[-1].text}` (line {ranked[-1].line}) is made from the rank; replicas that step on other"
            " gradients are no longer the same",
            evidence=(each,),
            fixes=(Fix(do="let all ranks step after the same number of batches", safety=Safety.CHANGES_RESULTS),),
        )
