# SPDX-License-Identifier: Apache-2.0
"""SLO001: one rank is slower than the others."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.training import Slowness
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import shorten


@rule(
    id="SLO001",
    cause=Cause.SLOW_STRAGGLER,
    needs=(Slowness,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def straggler(seen: EvidenceSet) -> Iterator[Found]:
    """One rank takes longer for each step, and all others wait for it.

    ## What it looks like
    The run, or a straggler detector, names a rank whose steps take longer than the others'.

    ## Why it happens
    A throttled or shared device, a busy host, a slower disk or link, or more work in that rank's share of the data.

    ## How we know
    The run's own readings say so.

    ## What to do
    Look at that rank's host: clocks and temperature of the device, other processes, its network card.

    ## When this is wrong
    Ranks take turns at being the slowest when batches differ in length.
    """
    slow = [e for e in seen.all(Slowness) if e.fact.what == "straggler"]
    if len(slow) < 1:
        return
    detail = next((e.fact.detail for e in slow if e.fact.detail), None)
    yield Found(
        title="one rank was slower than the others" + (f": {shorten(detail, 80)}" if detail else ""),
        because="the run's own timings name a slow rank",
        evidence=tuple(slow[:8]),
        fixes=(
            Fix(
                do="compare clocks, temperature and processes of that host with another",
                command="nvidia-smi -q -d CLOCK,PERFORMANCE",
            ),
            Fix(do="give the ranks shares of equal work, e.g. bucket samples by length"),
        ),
    )
