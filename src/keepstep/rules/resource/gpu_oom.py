# SPDX-License-Identifier: Apache-2.0
"""RES001: a GPU ran out of memory."""

from __future__ import annotations

from keepstep.model.facts import DeviceMemoryExhausted, LibraryMissing, StreamEnded
from keepstep.rules.api import (
    TO_THE_END,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    lazy_pattern,
    rule,
)
from keepstep.rules.asking.memory_advice import shortfall, smaller_batch
from keepstep.rules.asking.memory_forecast import (
    beside_forecast,
    earlier_forecast,
    held_before,
    needed_more,
    what_differs,
)
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, ended_badly, once_a_line, who

_OF_AN_ALLOCATOR = lazy_pattern(
    r"\b(?:bfc_allocator|gpu_cudamallocasync_allocator|cuda_malloc_async_allocator|tracking_allocator)\.cc:\d+\]"
)


@rule(
    id="RES001",
    cause=Cause.RESOURCE_GPU_OOM,
    needs=(DeviceMemoryExhausted,),
    explains=(*OF_A_DEAD_RANK, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.USER_NATIVE_CRASH),
)
def gpu_oom(seen: EvidenceSet) -> Findings:
    """A GPU ran out of memory, and the program did not go on.

    ## What it looks like
    `CUDA out of memory. Tried to allocate`, `CUDA error: out of memory`, `OOM when allocating tensor with
    shape`, `RESOURCE_EXHAUSTED: Out of memory while trying to allocate`, `CUDA_ERROR_OUT_OF_MEMORY`, or a
    CUDA library that cannot create its handle (`CUBLAS_STATUS_ALLOC_FAILED`). Other ranks lose their peer.

    ## Why it happens
    Weights, gradients, optimizer state and activations of one rank do not fit; a longer sample arrived; memory is
    fragmented; or another process (often a leftover one, or a second rank on the same device) holds it.

    ## How we know
    The allocator says so. If only a library's handle failed, memory is the usual but not the only reason. A
    forecast that `keepstep check memory --save FILE.jsonl` wrote is set beside it, if `keepstep run --memory-
    forecast` or `why` is given that file. Where the guard counted, it says whether more was needed from the first
    steps on.

    ## What to do
    Check which processes hold the device's memory. Reduce the batch per device, or shard or offload the state.

    ## When this is wrong
    Some programs catch the error and retry with less; then training continues after the message.
    """
    absent = [e.fact.name or "" for e in seen.all(LibraryMissing)]
    all_of_it = [
        e
        for e in seen.all(DeviceMemoryExhausted)
        if e.fact.kind == "gpu"
        and not seen.survived(e)
        and not (e.fact.library and any(e.fact.library in name for name in absent))
    ]
    sure = [e for e in all_of_it if e.fact.fatal]
    if not sure and not (
        ended_badly(seen) or any(_is_error(e.quote) or seen.is_last_word(e) or _is_dumped(seen, e) for e in all_of_it)
    ):
        return
    if not all_of_it:
        return
    evidence = once_a_line(sure or all_of_it)
    asked = next((e.fact.requested for e in evidence if e.fact.requested), None)
    device = next((e.fact.device for e in evidence if e.fact.device), None)
    device = f"GPU {device}" if device and device.isdecimal() else device
    missing = next((words for e in evidence if (words := shortfall(e.fact))), "")
    detail = f" when it requested {asked}" if asked else ""
    forecast = earlier_forecast(seen)
    worst = next((e for e in evidence if e.fact.held), evidence[0])
    full, before = worst.fact, held_before(seen, worst) if forecast else ()
    for each in forecast:
        missing += beside_forecast(full, each.fact, before)
    yield Found(
        title=f"{who(evidence)} ran out of GPU memory{detail}",
        because=(
            f"an allocation{f' of {asked}' if asked else ''} did not fit into {device or 'its GPU'}{missing}"
            if sure
            else "a CUDA library could not get what it needs; usually, the device is out of memory"
        ),
        evidence=(*evidence, *forecast, *before),
        confidence=None if sure else Confidence.SUPPORTED,
        fixes=(
            Fix(do="check which processes hold the device's memory, and end leftover ones", command="nvidia-smi"),
            *(what_differs(before, each.fact) for each in forecast if (needed_more(full, each.fact) or 0) > 0),
            *smaller_batch(seen),
            Fix(
                do="let PyTorch grow its segments, to avoid fragmentation",
                command="export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            ),
            Fix(do="shard or offload parameters and optimizer state (FSDP, ZeRO), or checkpoint activations"),
        ),
    )


def _is_dumped(seen: EvidenceSet, full: Evidence[DeviceMemoryExhausted]) -> bool:
    """Whether everything that follows is what an allocator prints when it gives up."""
    return any(_OF_AN_ALLOCATOR.search(e.fact.last) for e in seen.near(full, StreamEnded, after=TO_THE_END))


def _is_error(quote: str) -> bool:
    """Whether the message is an error that ends a program, not a retry."""
    return any(word in quote for word in ("Error:", "terminate", "Aborted", "Check failed"))
