# SPDX-License-Identifier: Apache-2.0
"""SLO003: steps wait for the network."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.training import Slowness, Throughput
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import shorten


@rule(
    id="SLO003",
    cause=Cause.SLOW_NETWORK_BOUND,
    needs=(Slowness, Throughput),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def network_bound(seen: EvidenceSet) -> Iterator[Found]:
    """Most of each step is spent in communication.

    ## What it looks like
    A profiler or the run itself says that communication takes most of a step; or a benchmark does less
    for each device, by far, when it runs over more devices.

    ## Why it happens
    Gradients go over a slow interface (TCP in place of InfiniBand, one card of many), or batches are too small for the model.

    ## How we know
    The run's own readings say so.

    ## What to do
    Check which transport is used; overlap, bucket or compress gradients; accumulate over several batches.

    ## When this is wrong
    A slow rank also looks like slow communication to all others.
    """
    fell = _fell(seen)
    if fell:
        few, many = fell[0].fact, fell[-1].fact
        yield Found(
            title=f"each device did {few.rate / few.devices:.4g} a second among {few.devices}"
            f" and {many.rate / many.devices:.4g} among {many.devices}",
            because="the same work got much slower over more devices, which is what exchanging gradients costs",
            evidence=fell,
            fixes=_FIXES,
        )
        return
    slow = [e for e in seen.all(Slowness) if e.fact.what == "network"]
    if not slow:
        return
    detail = next((e.fact.detail for e in slow if e.fact.detail), None)
    yield Found(
        title="most of each step was spent in communication" + (f": {shorten(detail, 80)}" if detail else ""),
        because="the run's own readings show communication as the larger part of a step",
        evidence=tuple(slow[:8]),
        fixes=_FIXES,
    )


def _fell(seen: EvidenceSet) -> tuple[Evidence[Throughput], ...]:
    """Two readings: one over few devices, and a later one over more where each does less than half."""
    readings = seen.all(Throughput)
    for one in readings:
        for other in readings:
            few, many = one.fact, other.fact
            if few.devices < many.devices and many.rate / many.devices < few.rate / few.devices / 2:
                return (one, other)
    return ()


_FIXES = (
    Fix(do="see which transport and interface NCCL chose", command="export NCCL_DEBUG=INFO"),
    Fix(do="accumulate gradients over several batches between reductions"),
)
