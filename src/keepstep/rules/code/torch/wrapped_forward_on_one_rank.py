# SPDX-License-Identifier: Apache-2.0
"""COD102: only some ranks call the wrapped model."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import decided, diverging, reached_by


@rule(
    id="COD102",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(CodeDiverges,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def wrapped_forward_on_one_rank(seen: EvidenceSet) -> Findings:
    """Only some ranks call the model that DDP or FSDP wraps.

    ## What it looks like
    ```python
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def evaluate(net, loader, rank):
        model = DistributedDataParallel(net)
        if rank == 0:
            for batch in loader:
                model(batch)
    ```

    ## Why it happens
    The wrapper's forward exchanges data: DDP broadcasts buffers (BatchNorm has some), FSDP gathers the parameters. The
    ranks that call it alone wait, or pair it with the next step of the others.

    ## How we know
    The order of collectives is followed on rank 0 and on another rank, through the functions that are called. Here the
    two differ.

    ## What to do
    ```python
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def evaluate(net, loader, rank):
        model = DistributedDataParallel(net)
        if rank == 0:
            for batch in loader:
                model.module(batch)
    ```

    ## When this is wrong
    With DDP, when the model has no buffers, or `broadcast_buffers=False`. With FSDP it never is.
    """
    for each in diverging(seen, ["forward", "backward"], ["branch"]):
        fact = each.fact
        why = f"under `{fact.condition}` ({decided(fact)}) only some ranks reach it{reached_by(fact)}"
        if fact.kind == "backward":
            yield Found(
                title="only some ranks go backward through the wrapped model",
                because=f"{why}; there gradients are averaged over all ranks, and these wait for the others",
                evidence=(each,),
                fixes=(Fix(do="let all ranks agree, with a reduction, whether they leave the step out"),),
            )
            continue
        yield Found(
            title="only some ranks call the wrapped model",
            because=f"{why}; there FSDP gathers parameters from all ranks, and DDP sends buffers to them if the model"
            " has any",
            evidence=(each,),
            fixes=(Fix(do="call `model.module` (DDP), or let all ranks evaluate their share of the data"),),
        )
