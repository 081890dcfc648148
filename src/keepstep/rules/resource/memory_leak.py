# SPDX-License-Identifier: Apache-2.0
"""RES008: memory grew until it ran out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import (
    DeviceMemoryExhausted,
    HostAllocationFailed,
    LoaderWorkerDied,
    MemoryGrew,
    MemoryRead,
    OomKilled,
)
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.resource.lookup import ended_by, once_a_line, who
from keepstep.rules.resource.memory_rising import told_of

FEWEST = 5
FEWEST_BEFORE_THE_END = 4
"""Readings needed; less where memory did run out afterwards."""
GROWTH = 1.3
GROWTH_ALONE = 1.5
STILL = 1.08
"""How much the last reading exceeds the first one (more, where memory did not run out), and the one in the middle."""


@rule(
    id="RES008",
    cause=Cause.RESOURCE_MEMORY_LEAK,
    needs=(MemoryGrew, MemoryRead),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.RESOURCE_HOST_OOM_KILLED, Cause.RESOURCE_GPU_OOM, Cause.DATA_LOADER_WORKER_KILLED),
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
    on_host = any(seen.all(kind) for kind in (OomKilled, HostAllocationFailed, LoaderWorkerDied)) or any(
        ended_by(e.fact, "SIGKILL") for e in seen.all(ProcessExited)
    )
    on_device = any(e.fact.fatal for e in seen.all(DeviceMemoryExhausted))
    ran_out = on_host or on_device
    grew = once_a_line(seen.all(MemoryGrew))
    rising = _rising(seen, on_host, on_device)
    measured = {each.who for each in told_of(seen)}
    if {each.who for each in (*grew, *rising)} <= measured:
        return  # nothing rises, or it was measured: RES010 tells it
    because = grew[0].fact.detail if grew else f"its {len(rising)} readings rise from step to step"
    yield Found(
        title=f"memory of {who(grew or rising)} kept rising while it trained",
        because=because or "its readings rise from step to step",
        evidence=(*grew, *rising),
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


def _rising(seen: EvidenceSet, on_host: bool, on_device: bool) -> tuple[Evidence[MemoryRead], ...]:
    """The longest series of readings of one writer that rises all the way, if any does."""
    series: dict[tuple[object, ...], list[Evidence[MemoryRead]]] = defaultdict(list)
    for each in seen.all(MemoryRead):
        fact = each.fact
        series[each.origin.source, each.origin.stream, each.who, fact.what, fact.free, fact.on_device].append(each)
    best: tuple[Evidence[MemoryRead], ...] = ()
    for readings in series.values():
        device = readings[0].fact.on_device
        ran_out = on_host or (device and on_device)
        if len(readings) < (FEWEST_BEFORE_THE_END if ran_out else FEWEST + 1 if device else FEWEST):
            continue
        values = [e.fact.value for e in readings]
        if readings[0].fact.free:
            values = values[::-1]
        rises = sum(later >= earlier for earlier, later in pairwise(values))
        if (
            values[-1] < (GROWTH if ran_out else GROWTH_ALONE) * values[0]
            or values[-1] < STILL * values[len(values) // 2]
        ):
            continue
        if rises >= (0.9 if ran_out or not device else 1) * (len(values) - 1) and len(readings) > len(best):
            best = tuple(readings)
    return best
