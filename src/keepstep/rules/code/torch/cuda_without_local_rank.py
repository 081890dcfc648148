# SPDX-License-Identifier: Apache-2.0
"""COD107: all processes of a host use the same GPU."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import DDP, binds_a_device, wraps_with_ddp

_FIRST = ("torch.device[cuda]", "torch.device[cuda:0]")


def _goes_to_the_first(known: ProjectFacts, call: Call) -> bool:
    where = call.fact.argument("device", 0)
    if where is None:
        return call.fact.method == "cuda"
    function = known.functions.get(where.target)
    if function is not None:
        return bool(function.fact.returns) and set(function.fact.returns) <= set(_FIRST)
    return where.literal in ("'cuda'", "'cuda:0'", "0") or where.made in _FIRST


def _is_wrapped(known: ProjectFacts, moved: Call) -> bool:
    """Whether DDP wraps what was moved, in the same function."""
    for wrap in known.inside(moved.fact.function):
        model = wrap.fact.argument("module", 0) if wrap.fact.name == DDP else None
        if model is None:
            continue
        on = moved.fact.on.text if moved.fact.on else ""
        if moved.fact.text in model.text or model.text in (moved.fact.assigned, on):
            return True
    return False


@rule(
    id="COD107",
    cause=Cause.RESOURCE_GPU_OOM,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def cuda_without_local_rank(seen: EvidenceSet) -> Findings:
    """A model is moved to a fixed GPU in a program that runs one process per GPU.

    ## What it looks like
    ```python
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def build(net):
        dist.init_process_group("gloo")
        return DistributedDataParallel(net.cuda())
    ```

    ## Why it happens
    `.cuda()`, `"cuda"` and `"cuda:0"` mean GPU 0 until the process has chosen another. All processes of a host then
    share one GPU, which runs out of memory or is slow, while the others stay idle.

    ## How we know
    The model that DDP wraps is moved without the local rank, and no file of the program calls
    `torch.cuda.set_device` or sets CUDA_VISIBLE_DEVICES.

    ## What to do
    ```python
    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def build(net):
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        dist.init_process_group("gloo")
        return DistributedDataParallel(net.cuda(local_rank))
    ```

    ## When this is wrong
    When the launcher gives each process one visible GPU.
    """
    known = program(seen)
    for each in known.methods("cuda", "to"):
        if not _goes_to_the_first(known, each) or not wraps_with_ddp(known, each) or binds_a_device(known, each):
            continue
        if not _is_wrapped(known, each):
            continue
        yield Found(
            title="every process puts the model on the same GPU",
            because=f"`{each.fact.text}` means GPU 0 in all processes: nothing here chooses by the local rank",
            evidence=(each,),
            fixes=(Fix(do="call torch.cuda.set_device(local_rank) first, or move the model to the rank's own device"),),
        )
