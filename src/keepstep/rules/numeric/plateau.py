# SPDX-License-Identifier: Apache-2.0
"""NUM002: the loss stopped changing."""

from __future__ import annotations

import math
from collections import defaultdict

from keepstep.model.facts import Plateau, StepSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule

ENOUGH = 30
"""How many readings must be equal to all printed digits."""
EXACT = 8
EXACT_DIGITS = 6
"""How many readings cannot be equal by chance, where this many digits are printed."""
LOWEST = 0.1
EPOCHS = 5
STEPS = 8
"""Readings of whole epochs, or of steps, after which a loss has changed if it ever will."""
SPAN = 500
LONG = 20
"""The steps that readings must span, or the number of readings, after which this is no slow start."""
STILL = 0.005
"""The part of its value by which a loss may vary and still count as unchanged."""
LEAST = 0.3
NEAR = 0.002
GUESSED = (2, 3, 4, 5, 10, 20, 21, 80, 100, 101, 200, 365, 400, 700, 1000, 1001)
"""Numbers of classes in the usual datasets."""
MANY_CLASSES, MOST_CLASSES = 5_000, 2_000_000
FROM_THE_START = 300
"""Up to this line, or the middle of what was read, a first reading counts as the start of the run."""


@rule(
    id="NUM002",
    cause=Cause.NUMERIC_PLATEAU,
    needs=(Plateau, StepSeen),
    severity=Severity.WARNING,
    confidence=Confidence.HYPOTHESIS,
)
def plateau(seen: EvidenceSet) -> Findings:
    """The loss no longer changes: the last readings are all the same number.

    ## What it looks like
    The printed loss is the same, to the last digit, for dozens of readings.

    ## Why it happens
    Gradients are zero or are not applied (frozen parameters, a learning rate of 0, a skipped optimizer
    step on every rank, gradients that are not reduced), or the printed metric is not that of the current step.

    ## How we know
    The last thirty readings of a rank's loss are equal (eight, where they are printed to many digits); or, over
    whole epochs, the loss stayed at the value that guessing gives, the logarithm of the number of classes.

    ## What to do
    Print the learning rate and a gradient norm; check that parameters change between steps.

    ## When this is wrong
    A converged model prints the same rounded loss for a long time.
    """
    said = seen.all(Plateau)
    if said:
        yield _found(tuple(said[:5]))  # type: ignore[arg-type]
        return
    streams: dict[tuple[str, str], list[Evidence[StepSeen]]] = defaultdict(list)
    for step in seen.all(StepSeen):
        if step.fact.loss is not None:
            streams[step.origin.writer].append(step)
    for readings in streams.values():
        if _never_moved([e for e in readings if _of_an_epoch(e)], EPOCHS) or _never_moved(
            [e for e in readings if not _of_an_epoch(e)], STEPS
        ):
            yield _found(
                (readings[0], readings[-1]),
                "the loss never left its first value, which is that of a model that guesses",
            )
            return
        last = readings[-ENOUGH:]
        values = {e.fact.loss for e in last}
        value = next(iter(values))
        if not value or not math.isfinite(value) or value < LOWEST:
            continue
        if not (len(last) == ENOUGH and len(values) == 1):
            last = readings[-EXACT:] if _digits(value) >= EXACT_DIGITS else []
            values = {e.fact.loss for e in last}
        if len(last) >= EXACT and len(values) == 1:
            yield _found((last[0], last[-1]))
            return


def _digits(value: float) -> int:
    """The number of digits that a loss was printed with."""
    return len(f"{value!r}".partition("e")[0].replace(".", "").strip("0"))


def _of_an_epoch(reading: Evidence[StepSeen]) -> bool:
    fact = reading.fact
    return (fact.step is not None and fact.step == fact.of) or (fact.step is None and "poch" in reading.quote)


def _never_moved(readings: list[Evidence[StepSeen]], enough: int) -> bool:
    """Whether a loss always stayed at the value that guessing gives: the logarithm of a number of classes."""
    losses = [e.fact.loss for e in readings if e.fact.loss is not None]
    if len(losses) < enough or not all(math.isfinite(loss) for loss in losses) or max(losses) < LEAST:
        return False
    if max(losses) - min(losses) > STILL * max(losses):
        return False
    if enough == STEPS and len(losses) < LONG:
        steps = [e.fact.step for e in readings if e.fact.step is not None]
        if not steps or max(steps) - min(steps) < SPAN:
            return False
    classes = math.exp(min(max(losses), 20.0))
    if (readings[0].origin.line or 0) > max(FROM_THE_START, (readings[-1].origin.line or 0) // 2):
        return False  # only the end of a long log was read: the loss may have changed before
    guessed = (
        any(abs(losses[-1] - math.log(n)) <= NEAR * losses[-1] for n in GUESSED)
        or MANY_CLASSES < classes < MOST_CLASSES
    )
    return guessed or (enough == EPOCHS and len(set(losses)) == 1)


def _found(
    evidence: tuple[Evidence[StepSeen], ...],
    because: str = "the last readings of the loss are equal to every printed digit",
) -> Found:
    return Found(
        title="the loss stopped changing",
        because=because,
        evidence=evidence,
        fixes=(
            Fix(do="print the learning rate and the gradient norm of the first parameter"),
            Fix(do="check that the optimizer holds the parameters of the wrapped model", safety=Safety.CHANGES_RESULTS),
        ),
    )
