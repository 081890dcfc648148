# SPDX-License-Identifier: Apache-2.0
"""SLO003: steps wait for the network."""

from __future__ import annotations

from keepstep.model.facts import DevicesNamed, Fact, Slowness, StepSeen, Throughput
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    count,
    rule,
    shorten,
)

MOSTLY = 0.6
"""The part of a step above which it is worth reporting."""
ENOUGH = 3
FELL = 0.8
"""More devices are slower if their rate is below this part of what fewer achieved, per device or in total."""

_Reading = tuple[int, float, Evidence[Fact]]
"""The number of devices, the rate of each per second, and the evidence."""


@rule(
    id="SLO003",
    cause=Cause.SLOW_NETWORK_BOUND,
    needs=(Slowness, StepSeen, Throughput),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def network_bound(seen: EvidenceSet) -> Findings:
    """Most of each step is spent in communication.

    ## What it looks like
    A profiler or the run itself says that communication takes most of a step; or a benchmark's rate per
    device drops sharply when it runs on more devices.

    ## Why it happens
    Gradients go over a slow interface (TCP instead of InfiniBand, one network card of several), or batches are too
    small for the model.

    ## How we know
    The run's own measurements show it.

    ## What to do
    Check which transport is used; overlap, bucket or compress gradients; accumulate over several batches.

    ## When this is wrong
    A slow rank also looks like slow communication to all others.
    """
    fell = _fell(seen)
    if fell:
        (few, alone, one), (many, shared, other) = fell
        yield Found(
            title=f"the rate per device fell from {alone:.4g}/s on {count(few, 'device')} to {shared:.4g}/s on {many}",
            because="the same work is much slower on more devices, so the exchange of gradients costs most of the time",
            evidence=(one, other),
            fixes=_FIXES,
        )
        return
    slow: list[Evidence[Fact]] = [e for e in seen.all(Slowness) if e.fact.what == "network"]
    timed = [e for e in seen.all(StepSeen) if e.fact.exchanging is not None]
    talked = [e for e in timed if (e.fact.exchanging or 0.0) >= MOSTLY]
    if not slow and len(talked) >= ENOUGH and len(talked) >= MOSTLY * len(timed):
        slow.extend(talked)
    if not slow:
        return
    detail = next((e.fact.detail for e in seen.all(Slowness) if e.fact.what == "network" and e.fact.detail), None)
    yield Found(
        title="most of each step was spent in communication" + (f": {shorten(detail, 80)}" if detail else ""),
        because="the run's own measurements show that communication is the larger part of a step",
        evidence=tuple(slow[:8]),
        fixes=_FIXES,
    )


def _fell(seen: EvidenceSet) -> tuple[_Reading, _Reading] | None:
    """Two readings: one on few devices, and one on more where each does less than half."""
    readings: list[_Reading] = []
    rates: list[_Reading] = []
    bars: dict[int | None, list[_Reading]] = {}
    named = 0
    for e in sorted(seen.items, key=lambda e: (e.origin.source, e.origin.line or 0)):
        if isinstance(e.fact, DevicesNamed):
            named = e.fact.count
        elif isinstance(e.fact, Throughput):
            devices = e.fact.devices or named
            if devices:
                readings.append((devices, e.fact.rate if e.fact.each else e.fact.rate / devices, e))
        elif isinstance(e.fact, StepSeen) and e.fact.rate and named and "/s/gpu" in e.quote:
            readings.append((named, e.fact.rate, e))
        elif isinstance(e.fact, StepSeen) and e.fact.rate and named and "wps=" in e.quote:
            readings.append((named, e.fact.rate / named, e))
        elif isinstance(e.fact, StepSeen) and e.fact.seconds and e.fact.step and e.fact.step == e.fact.of:
            bars.setdefault(e.fact.of, []).append((named or 1, 1.0 / e.fact.seconds, e))
        elif isinstance(e.fact, StepSeen) and e.fact.rate and named:
            rates.append((named, e.fact.rate, e))
    for one in rates:
        for other in rates:
            if one[0] < other[0] and other[1] < FELL * one[1]:
                return (one[0], one[1] / one[0], one[2]), (other[0], other[1] / other[0], other[2])
    for group in (readings, *bars.values()):
        for one in group:
            for other in group:
                if one[0] < other[0] and other[1] < one[1] / 2:
                    return one, other
    return None


_FIXES = (
    Fix(do="check which transport and interface NCCL chose", command="export NCCL_DEBUG=INFO"),
    Fix(do="accumulate gradients over several batches between reductions"),
)
