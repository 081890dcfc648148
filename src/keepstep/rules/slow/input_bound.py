# SPDX-License-Identifier: Apache-2.0
"""SLO002: steps wait for data."""

from __future__ import annotations

from collections import defaultdict

from keepstep.base import wording
from keepstep.model.facts import Fact, Slowness, StepSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule, shorten

ENOUGH = 3
"""How many steps must show it in their own timing; single steps wait for data in every run."""
FIRST = 1
"""The step of an epoch up to which every run waits: its loader has only just started."""
OFTEN = 5
"""How often a loader must complain; every run waits for its first batches."""
MOSTLY = 0.6
"""The part of a step, and of all steps, above which it is worth reporting."""
MANY = 50
STEADY = 0.02
"""Over this many steps, times that vary by less than this part come from a device; no loader is that steady."""


@rule(
    id="SLO002",
    cause=Cause.SLOW_INPUT_BOUND,
    needs=(Slowness, StepSeen),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def input_bound(seen: EvidenceSet) -> Findings:
    """Most of each step is spent waiting for data.

    ## What it looks like
    `data_time` is nearly as long as `time` in the log, or a profiler says that the program is input-bound.

    ## Why it happens
    Too few loader workers, decoding on the critical path, or storage that is slow or far away.

    ## How we know
    The run prints how long a step took and how much of that it waited for its batch.

    ## What to do
    Add loader workers, prefetch, cache or pre-decode the data, move it to local disks.

    ## When this is wrong
    The first steps of an epoch wait for data in every run. A program that queues its work on the device and continues
    waits for the device when it asks for its next batch; we assume this where all steps take the same time.
    """
    said: tuple[Evidence[Fact], ...] = tuple(e for e in seen.all(Slowness) if e.fact.what == "input")
    complaints = tuple(e for e in seen.all(Slowness) if e.fact.what == "input complaint")
    if not said and len(complaints) >= OFTEN:
        said = complaints
    timed = [
        e for e in seen.all(StepSeen) if e.fact.waiting is not None and (e.fact.step is None or e.fact.step > FIRST)
    ]
    slow = _slow_streams(timed)
    waited = [e for e in timed if (e.fact.waiting or 0.0) >= MOSTLY and _stream(e) in slow]
    if not said and not waited:
        return
    some = {e.who for e in waited if e.who is not None} if len(slow) < len({_stream(e) for e in timed}) else set()
    shown = said or tuple(waited)
    detail = next((e.fact.detail for e in seen.all(Slowness) if e.fact.what == "input" and e.fact.detail), None)
    yield Found(
        title=f"{wording.ranks(some)} spent most of each step waiting for data, and held up the other ranks"
        if some and not said
        else "most of each step was spent waiting for data" + (f": {shorten(detail, 80)}" if detail else ""),
        because=("the run itself says so" if said else "the printed time to get a batch is most of the time of a step"),
        evidence=shown[:8],
        ranks=tuple(sorted(some)) if some and not said else None,
        fixes=(
            Fix(
                do="load with more workers, and keep them",
                code="DataLoader(..., num_workers=8, persistent_workers=True, pin_memory=True)",
            ),
            Fix(
                do="with tf.data, parallelise and prefetch",
                code="ds.map(f, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)",
            ),
        ),
    )


def _stream(evidence: Evidence[StepSeen]) -> tuple[str, str, int | None]:
    return evidence.origin.source, evidence.origin.stream, evidence.who


def _slow_streams(timed: list[Evidence[StepSeen]]) -> set[tuple[str, str, int | None]]:
    """The logs (one per rank) in which most of the time was spent waiting."""
    by_stream: dict[tuple[str, str, int | None], list[Evidence[StepSeen]]] = defaultdict(list)
    for each in timed:
        by_stream[_stream(each)].append(each)
    if _slow(timed):
        return set(by_stream)
    return {stream for stream, readings in by_stream.items() if _slow(readings)}


def _slow(readings: list[Evidence[StepSeen]]) -> bool:
    waits = sum((e.fact.waiting or 0.0) >= MOSTLY for e in readings) >= ENOUGH and _part(readings) >= MOSTLY
    return waits and not _keeps_time(readings)


def _keeps_time(readings: list[Evidence[StepSeen]]) -> bool:
    """Whether all steps take the same time, as only a device does: the wait for the batch is one for the device."""
    times = sorted(e.fact.seconds for e in readings if e.fact.seconds)
    if len(times) < MANY:
        return False
    low, middle, high = (times[len(times) * part // 100] for part in (5, 50, 95))
    return high - low < STEADY * middle


def _part(timed: list[Evidence[StepSeen]]) -> float:
    """The part of the total time spent waiting: a few long waits weigh as much as many short ones."""
    whole = sum(e.fact.seconds or 1.0 for e in timed)
    return sum((e.fact.waiting or 0.0) * (e.fact.seconds or 1.0) for e in timed) / whole if whole else 0.0
