# SPDX-License-Identifier: Apache-2.0
"""RES008: memory grew until it ran out."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.resource import DeviceMemoryExhausted, HostAllocationFailed, MemoryGrew, OomKilled
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.resource.lookup import once_a_line, who


@rule(
    id="RES008",
    cause=Cause.RESOURCE_MEMORY_LEAK,
    needs=(MemoryGrew,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.RESOURCE_HOST_OOM_KILLED, Cause.RESOURCE_GPU_OOM),
)
def memory_leak(seen: EvidenceSet) -> Iterator[Found]:
    """Memory rose step after step, and then ran out.

    ## What it looks like
    Readings of memory that only rise, over many steps or epochs, before the process is killed.

    ## Why it happens
    Losses kept with their graphs, growing caches and lists, datasets of Python objects that loader workers
    copy on reading, graphs that are retraced.

    ## How we know
    The run's own readings rise all the way.

    ## What to do
    Find what is kept: compare object counts between two steps, and detach what is logged.

    ## When this is wrong
    Caches fill for a while and then stop; short logs cannot tell.
    """
    grew = once_a_line(seen.all(MemoryGrew))
    if not grew:
        return
    ran_out = any(seen.all(kind) for kind in (OomKilled, HostAllocationFailed, DeviceMemoryExhausted))
    yield Found(
        title=f"memory of {who(grew)} kept rising while it trained",
        because=grew[0].fact.detail or "its readings rise from step to step",
        evidence=grew,
        severity=None if ran_out else Severity.WARNING,
        fixes=(
            Fix(
                do="keep numbers, not tensors with graphs",
                command="total += loss.item()   # or loss.detach()",
            ),
            Fix(do="hold samples in arrays instead of Python objects, so that workers do not copy them"),
            Fix(do="compare live objects between steps", command="python -X tracemalloc ..."),
        ),
    )
