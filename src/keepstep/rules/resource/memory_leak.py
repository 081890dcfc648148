# SPDX-License-Identifier: Apache-2.0
"""RES008: memory grew with every step until it ran out."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from keepstep.model.facts import (
    DeviceMemoryExhausted,
    HostAllocationFailed,
    LoaderWorkerDied,
    MemoryGrew,
    MemoryRead,
    OomKilled,
    ProcessExited,
)
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Found, Severity, rule
from keepstep.rules.asking.process_endings import ended_by, once_a_line, who
from keepstep.rules.resource.memory_rising import KEEP_LESS, told_of

FEWEST = 5
FEWEST_BEFORE_THE_END = 4
"""Readings needed; fewer if memory did run out afterwards."""
GROWTH = 1.3
GROWTH_ALONE = 1.5
STILL = 1.08
"""How much the last reading exceeds the first one (more, if memory did not run out), and the middle one."""


@rule(
    id="RES008",
    cause=Cause.RESOURCE_MEMORY_LEAK,
    needs=(MemoryGrew, MemoryRead),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.RESOURCE_HOST_OOM_KILLED, Cause.RESOURCE_GPU_OOM, Cause.DATA_LOADER_WORKER_KILLED),
)
def memory_leak(seen: EvidenceSet) -> Findings:
    """Memory grew step after step, and then ran out.

    ## What it looks like
    Memory readings that only rise, over many steps or epochs, before the process is killed.

    ## Why it happens
    Losses that are kept with their graphs, growing caches and lists, datasets of Python objects that loader workers
    copy when they read them, graphs that are retraced.

    ## How we know
    The run's own readings rise from start to end.

    ## What to do
    Find out what is kept: compare object counts between two steps, and detach what is logged.

    ## When this is wrong
    Caches grow for a while and then stop. A short log cannot show the difference.
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
        return  # nothing rises, or it was measured: RES010 reports it
    because = grew[0].fact.detail if grew else f"its {len(rising)} readings rise from step to step"
    yield Found(
        title=f"the memory of {who(grew or rising)} kept growing during training",
        because=because or "its readings rise from step to step",
        evidence=(*grew, *rising),
        severity=None if ran_out else Severity.WARNING,
        fixes=KEEP_LESS,
    )


def _rising(seen: EvidenceSet, on_host: bool, on_device: bool) -> tuple[Evidence[MemoryRead], ...]:
    """The longest series of readings of one writer that rises from start to end, if there is one."""
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
