# SPDX-License-Identifier: Apache-2.0
"""DAT005: the input ended before the training did."""

from __future__ import annotations

from keepstep.model.facts import EndOfData, ExceptionRaised, StepSeen, StreamEnded
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, Standing, rule
from keepstep.rules.asking.fallout import FALLOUT, lasting, others_stopped, who

LINES_BELOW = 4


@rule(id="DAT005", cause=Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE, needs=(EndOfData,), explains=FALLOUT)
def out_of_range_end_of_sequence(seen: EvidenceSet) -> Findings:
    """The input ended before the training did.

    ## What it looks like
    `OutOfRangeError: End of sequence`, a queue that `is closed and has insufficient elements`, collectives
    aborted with `Out of range: [_Derived_]End of sequence`, or `Your input ran out of data`.

    ## Why it happens
    The dataset is not repeated while the number of steps is fixed, a path matches fewer files than intended, or the
    strategy in that release cannot end an epoch by itself.

    ## How we know
    The end of the sequence ended the program or aborted a collective. The log line alone is not a failure: TensorFlow
    prints it at the end of every healthy epoch.

    ## What to do
    Repeat the dataset, and set the number of steps per epoch.

    ## When this is wrong
    A reader that failed for another reason (a corrupt file, a missing path) also closes its queue.
    """
    found = tuple(e for e in lasting(seen, EndOfData) if e.fact.what != "logged")
    if not found:
        yield from _only_some(seen)
        return
    short = tuple(e for e in found if e.fact.what == "ran out of data")
    hard = tuple(e for e in found if e not in short)
    well = not seen.broken and not others_stopped(seen)
    short = tuple(e for e in short if not _merely_ended(seen, e, well))
    if hard:
        raised = any(e.fact.what != "collective aborted" for e in hard)
        ended = any("OutOfRange" in e.fact.type or "StopIteration" in e.fact.type for e in seen.all(ExceptionRaised))
        yield Found(
            title=f"{who(hard)} reached the end of its input before training was done",
            because="the end of the sequence ended the program"
            if raised
            else "the end of the sequence on one rank aborted the collectives of all ranks",
            evidence=hard[:8],
            confidence=Confidence.ESTABLISHED if raised and ended else Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    if not short:
        return
    stopped = others_stopped(seen)
    yield Found(
        title=f"{who(short)} ran out of input before its epochs were done",
        because="Keras ended training early because the dataset had no more batches",
        evidence=(*short[:4], *stopped[:3]),
        confidence=Confidence.SUPPORTED,
        standing=Standing.SYMPTOM,
        severity=Severity.FATAL if stopped or seen.broken else Severity.WARNING,
        fixes=_FIXES,
    )


def _merely_ended(seen: EvidenceSet, place: Evidence[EndOfData], well: bool) -> bool:
    """Whether it was only the end of an epoch: Keras 3 prints the same when it does not know a dataset's length."""
    if not place.fact.warned:
        return False
    steps = [e.fact for e in seen.near(place, StepSeen, after=LINES_BELOW) if e.fact.step and e.fact.of]
    return any(fact.step == fact.of for fact in steps) if steps else well


_FIXES = (
    Fix(
        do="repeat the dataset and set the number of steps per epoch",
        code="ds = ds.repeat(); model.fit(ds, steps_per_epoch=N)",
    ),
    Fix(do="check how many files and samples each rank reads"),
)


def _only_some(seen: EvidenceSet) -> Findings:
    """Ranks whose output ends with the end of their data, before any step, while others print no step either."""
    ends = {e.who: e for e in seen.all(StreamEnded) if e.who is not None}
    logged = [e for e in lasting(seen, EndOfData) if e.who in ends and _is_last(e, ends[e.who])]
    out = tuple(sorted({e.who for e in logged if e.who is not None}))
    if not out or len(out) >= len(ends) or any(e.fact.step for e in seen.all(StepSeen)):
        return
    yield Found(
        title=f"{who(tuple(logged))} had no data from the start, and the others wait",
        because="its output ends with the end of its data, and no rank printed a step",
        evidence=tuple(logged[:4]),
        ranks=out,
        confidence=Confidence.HYPOTHESIS,
        fixes=_FIXES,
    )


def _is_last(said: Evidence[EndOfData], end: Evidence[StreamEnded]) -> bool:
    return said.origin.source == end.origin.source and (end.origin.line or 0) - (said.origin.line or 0) <= LINES_BELOW
