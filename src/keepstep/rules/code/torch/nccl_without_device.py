# SPDX-License-Identifier: Apache-2.0
"""COD106: an NCCL group whose processes have no device of their own."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import FSDP, FULLY_SHARD, INIT, TRAINERS, backend_of, binds_a_device

_CURRENT = re.compile(
    r"""\.cuda\(\)|["']cuda["'](?!\s*,\s*[^)\s=]+\))|pin_memory=True|torch\.cuda\.(?!is_|device_count|manual_seed|nccl)"""
)
"""What goes to the current GPU, as it is written: ``cuda`` without a number, pinned memory, most of torch.cuda."""
_GUESSING = (
    *("torch.distributed.barrier", "torch.distributed.all_gather_object", "torch.distributed.broadcast_object_list"),
    *("torch.distributed.gather_object", "torch.distributed.scatter_object_list", FSDP, FULLY_SHARD),
)


def _uses_the_current_gpu(known: ProjectFacts, init: Call) -> bool:
    """Whether something asks for the GPU of this process without saying which."""
    related = known.related(init)
    if known.among(init, *_GUESSING):
        return True
    return any(
        each.origin.source in related and _CURRENT.search(each.fact.text)
        for each in known.calls_writing("cuda", "pin_memory")
    ) or any(
        each.origin.source in related and _CURRENT.search(each.fact.value.text)
        for each in known.assigned_writing("cuda")
    )


@rule(
    id="COD106",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def nccl_without_device(seen: EvidenceSet) -> Findings:
    """`init_process_group("nccl")` is called, and no process is bound to a GPU of its own.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def setup():
        dist.init_process_group("nccl")
        dist.barrier()
    ```

    ## Why it happens
    NCCL talks from GPU to GPU. Until a process has chosen its GPU, collectives without a tensor (barrier) and the
    first allocations go to a guessed one, usually GPU 0 for all: they hang, or fail with a duplicate GPU.

    ## How we know
    The backend is given as "nccl", without `device_id`, and no file of the program calls `torch.cuda.set_device` or
    sets CUDA_VISIBLE_DEVICES. Something asks for a GPU without saying which: a barrier, `.cuda()`, pinned memory, FSDP.

    ## What to do
    ```python
    import os
    import torch
    import torch.distributed as dist

    def setup():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        dist.barrier()
    ```

    ## When this is wrong
    When the launcher gives each process one visible GPU.
    """
    known = program(seen)
    for each in known.calls(INIT):
        if backend_of(each, known) != "nccl" or each.fact.argument("device_id") is not None:
            continue
        if binds_a_device(known, each) or known.any_imports(each, *TRAINERS):
            continue
        if not _uses_the_current_gpu(known, each):
            continue
        yield Found(
            title="NCCL is used, but no process is bound to its own GPU",
            because="without set_device or device_id every process starts on GPU 0, and barrier guesses a GPU",
            evidence=(each,),
            fixes=(Fix(do="call torch.cuda.set_device(local_rank) first, and give device_id to init_process_group"),),
        )
