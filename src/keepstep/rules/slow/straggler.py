# SPDX-License-Identifier: Apache-2.0
"""SLO001: one rank is slower than the others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from statistics import median

from keepstep.model.facts import Slowness, StepSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule, shorten

FEWEST_RANKS = 3
FEWEST_READINGS = 2
ALIKE = 1.3
"""How far apart the other ranks may be."""
SLOWER = 1.5


@rule(
    id="SLO001",
    cause=Cause.SLOW_STRAGGLER,
    needs=(Slowness, StepSeen),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def straggler(seen: EvidenceSet) -> Findings:
    """One rank takes longer for each step, and all others wait for it.

    ## What it looks like
    The run, or a straggler detector, names a rank whose steps take longer than those of the other ranks.

    ## Why it happens
    A throttled or shared device, a busy host, a slower disk or link, or more work in that rank's share of the data.

    ## How we know
    The run's own measurements show it; or ranks print how long their steps took, and one is slower in all of them.

    ## What to do
    Look at that rank's host: clocks and temperature of the device, other processes, its network card.

    ## When this is wrong
    Ranks take turns at being the slowest when batches differ in length.
    """
    slow = [e for e in seen.all(Slowness) if e.fact.what == "straggler"]
    if not slow:
        yield from _by_timings(seen)
        return
    detail = next((e.fact.detail for e in slow if e.fact.detail), None)
    yield Found(
        title="one rank was slower than the others" + (f": {shorten(detail, 80)}" if detail else ""),
        because="the run's own timings name a slow rank",
        evidence=tuple(slow[:8]),
        ranks=_named(detail),
        fixes=_FIXES,
    )


def _named(detail: str | None) -> tuple[int, ...] | None:
    """The ranks that a detector lists, as in ``Affected ranks: [5, 12]`` or ``rank 5``."""
    listed = re.search(r"(?i)ranks?(?: ?[:=] ?| )\[?\{?(\d+(?:, ?\d+)*)", detail or "")
    return tuple(int(each) for each in listed[1].split(",")) if listed else None


_MEASURES: tuple[Callable[[StepSeen], float | None], ...] = (
    lambda step: step.own,
    lambda step: 1.0 / step.rate if step.rate else None,
    lambda step: step.seconds,
)


def _by_timings(seen: EvidenceSet) -> Findings:
    """One rank that takes longer than all others for the same steps, or has a lower rate."""
    for measure in _MEASURES:
        by_rank: dict[int, list[tuple[float, Evidence[StepSeen]]]] = defaultdict(list)
        for e in seen.all(StepSeen):
            value = measure(e.fact)
            if value is not None and e.who is not None:
                by_rank[e.who].append((value, e))
        if len(by_rank) < FEWEST_RANKS or min(len(each) for each in by_rank.values()) < FEWEST_READINGS:
            continue
        middle = {rank: median(value for value, _ in each) for rank, each in by_rank.items()}
        slowest = max(middle, key=lambda rank: middle[rank])
        others = [value for rank, value in middle.items() if rank != slowest]
        if min(others) <= 0 or max(others) > ALIKE * min(others) or middle[slowest] < SLOWER * max(others):
            continue
        if min(value for value, _ in by_rank[slowest]) <= max(others):
            continue
        times = middle[slowest] / median(others)
        yield Found(
            title=f"rank {slowest} took {times:.1f} times as long for its steps as the other ranks",
            because="the printed timings of this rank are worse than those of all other ranks, in every step",
            evidence=tuple(e for _, e in by_rank[slowest][:4]),
            ranks=(slowest,),
            fixes=_FIXES,
        )
        return


_FIXES = (
    Fix(
        do="compare clocks, temperature and processes of that host with those of another",
        command="nvidia-smi -q -d CLOCK,PERFORMANCE",
    ),
    Fix(do="give all ranks the same amount of work, for example by bucketing samples by length"),
)
