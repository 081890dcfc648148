# SPDX-License-Identifier: Apache-2.0
"""DAT006: a batch could not be split evenly over replicas or devices."""

from __future__ import annotations

from keepstep.model.facts import BatchNotDivisible, EmptyBatch, GroupShutDown, StepSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, Standing, rule
from keepstep.rules.asking.exceptions import over_parallel_ranks
from keepstep.rules.asking.fallout import FALLOUT, lasting, who

_FIXES = (
    Fix(
        do="drop the last, smaller batch",
        code="drop_remainder=True  # torch: drop_last=True",
        safety=Safety.CHANGES_RESULTS,
    ),
    Fix(do="or choose a batch size that is divisible by the number of replicas", safety=Safety.CHANGES_RESULTS),
)


@rule(
    id="DAT006",
    cause=Cause.DATA_BATCH_NOT_DIVISIBLE,
    needs=(BatchNotDivisible, EmptyBatch, GroupShutDown),
    explains=(*FALLOUT, Cause.DATA_SHAPE_MISMATCH),
)
def batch_not_divisible(seen: EvidenceSet) -> Findings:
    """A batch could not be split evenly, so a replica got too few rows or none.

    ## What it looks like
    `should be divisible by 8, but it is equal to 6`, `global_batch_size is not divisible by`, or only on the
    last step of an epoch: `slice index 0 of dimension 0 out of bounds`, `Expected more than 1 value per
    channel when training`, `RecvAsync is cancelled`.

    ## Why it happens
    The batch, or the smaller last one, is split over replicas or devices, and its size is not divisible by their
    number.

    ## How we know
    The framework says so, an operation got an empty batch, or the run broke off at the last step of an epoch (which is
    only reported as a hypothesis).

    ## What to do
    Drop the remainder, or choose a batch size that is divisible by the number of replicas.

    ## When this is wrong
    Empty sequences in the data itself also cause empty slices.
    """
    said = tuple(e for e in lasting(seen, BatchNotDivisible) if not over_parallel_ranks(seen, e))
    if said:
        first = said[0].fact
        numbers = f": {first.batch} over {first.parts}" if first.batch and first.parts else ""
        yield Found(
            title=f"a batch or dimension could not be split evenly{numbers}",
            because="the framework splits it over replicas or devices and allows no remainder",
            evidence=said,
            fixes=_FIXES,
        )
        return
    empty = lasting(seen, EmptyBatch)
    if empty:
        yield Found(
            title=f"{who(empty)} got a batch with too few rows or none",
            because="a smaller last batch that cannot be split evenly leaves a replica without rows",
            evidence=empty,
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    cut = [e for e in lasting(seen, GroupShutDown) if "RecvAsync" in e.fact.how]
    for each in cut:
        last = _last_step(seen, each)
        if last is not None and last.fact.of and last.fact.step is not None and last.fact.step >= last.fact.of - 1:
            yield Found(
                title=f"the run broke off at the last step of an epoch ({last.fact.step} of {last.fact.of})",
                because="it was cancelled with the last batch, usually the one that cannot be split evenly",
                evidence=(last, each),
                confidence=Confidence.HYPOTHESIS,
                standing=Standing.SYMPTOM,
                fixes=_FIXES,
            )
            return


def _last_step(seen: EvidenceSet, place: Evidence[GroupShutDown]) -> Evidence[StepSeen] | None:
    before = [e for e in seen.near(place, StepSeen, before=10**9) if e.origin.line != place.origin.line]
    return before[-1] if before else None
