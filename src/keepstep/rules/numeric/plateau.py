# SPDX-License-Identifier: Apache-2.0
"""NUM002: the loss stopped moving."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.training import Plateau, StepSeen
from keepstep.core.finding import Confidence, Fix, Found, Safety, Severity
from keepstep.core.rule import rule

ENOUGH = 30
"""Readings that must be equal to all printed digits."""


@rule(
    id="NUM002",
    cause=Cause.NUMERIC_PLATEAU,
    needs=(Plateau, StepSeen),
    severity=Severity.WARNING,
    confidence=Confidence.HYPOTHESIS,
)
def plateau(seen: EvidenceSet) -> Iterator[Found]:
    """The loss stands still: the last readings are all the same number.

    ## What it looks like
    The printed loss is equal to the last digit for dozens of readings.

    ## Why it happens
    Gradients are zero or are not applied (frozen parameters, a learning rate of 0, a skipped optimizer
    step on every rank, gradients that are not reduced), or the metric is not of the present step.

    ## How we know
    The last thirty readings of a rank's loss do not differ at all, and the loss is not zero.

    ## What to do
    Print the learning rate and a gradient norm; check that parameters change between steps.

    ## When this is wrong
    A converged model prints the same rounded loss for long.
    """
    said = seen.all(Plateau)
    if said:
        yield _found(tuple(said[:5]))  # type: ignore[arg-type]
        return
    streams: dict[tuple[str, str], list[Evidence[StepSeen]]] = defaultdict(list)
    for step in seen.all(StepSeen):
        if step.fact.loss is not None:
            streams[step.origin.source, step.origin.stream].append(step)
    for readings in streams.values():
        last = readings[-ENOUGH:]
        values = {e.fact.loss for e in last}
        value = next(iter(values))
        if len(last) == ENOUGH and len(values) == 1 and value and math.isfinite(value) and value >= 0.1:
            yield _found((last[0], last[-1]))
            return


def _found(evidence: tuple[Evidence[StepSeen], ...]) -> Found:
    return Found(
        title="the loss did not move any more",
        because="the last readings of the loss are equal to every printed digit",
        evidence=evidence,
        fixes=(
            Fix(do="print the learning rate and the gradient norm of the first parameter"),
            Fix(do="check that the optimizer holds the parameters of the wrapped model", safety=Safety.CHANGES_RESULTS),
        ),
    )
