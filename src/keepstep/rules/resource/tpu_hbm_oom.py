# SPDX-License-Identifier: Apache-2.0
"""RES011: a TPU's memory ran out."""

from __future__ import annotations

from keepstep.rules.api import Cause, DeviceMemoryExhausted, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.asking.exceptions import ranks_told


@rule(
    id="RES011",
    cause=Cause.RESOURCE_TPU_HBM_OOM,
    needs=(DeviceMemoryExhausted,),
    explains=(
        Cause.RESOURCE_GPU_OOM,
        Cause.COMPILE_PROGRAM_LIMIT_EXCEEDED,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.USER_CODE_EXCEPTION,
    ),
)
def tpu_hbm_oom(seen: EvidenceSet) -> Findings:
    """A program did not fit into a TPU's memory (HBM).

    ## What it looks like
    `Ran out of memory in memory space hbm. Used 8.41G of 8.00G hbm`, `RESOURCE_EXHAUSTED: Attempting to
    reserve ... That was not possible`, while compiling, loading or running a step.

    ## Why it happens
    Parameters, optimizer state and activations of one core need more than its HBM. Shapes are padded to tiles of 8 by
    128, so small dimensions can cost many times their size.

    ## How we know
    The TPU compiler adds up what the program needs before it runs, and prints both figures.

    ## What to do
    Reduce the batch per core, shard the state over more cores, rematerialise activations, or use bfloat16.

    ## When this is wrong
    If another process uses the same TPU, only part of its memory is left.
    """
    full = tuple(e for e in seen.all(DeviceMemoryExhausted) if e.fact.kind == "tpu" and not seen.survived(e))
    if not full:
        return
    used = next((e.fact for e in full if e.fact.requested and e.fact.capacity), None)
    asked = next((e.fact.requested for e in full if e.fact.requested), None)
    if used is not None:
        detail = f": it needed {used.requested} of {used.capacity}"
    else:
        detail = f" when it requested {asked}" if asked else ""
    yield Found(
        title=f"the program did not fit into the TPU's memory{detail}",
        because="the TPU's compiler or allocator reports that the program needs more than its HBM",
        evidence=full,
        ranks=ranks_told(seen, full),
        fixes=(
            Fix(do="reduce the batch per core", safety=Safety.CHANGES_RESULTS),
            Fix(do="shard parameters and optimizer state over more cores, or use a TPU with more memory"),
            Fix(do="rematerialise activations", code="jax.checkpoint / torch_xla.utils.checkpoint"),
            Fix(do="read the largest allocations in the message: they show how much padding small dimensions cost"),
        ),
    )
