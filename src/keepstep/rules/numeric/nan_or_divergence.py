# SPDX-License-Identifier: Apache-2.0
"""NUM001: the loss or gradients became NaN or infinite."""

from __future__ import annotations

import math

from keepstep.model.facts import (
    ExceptionRaised,
    Fact,
    FatalSignal,
    LossNotFinite,
    NativeAbort,
    NonFinite,
    ProcessExited,
    StepSeen,
    TracebackCut,
)
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Severity,
    lazy_pattern,
    ranks,
    rule,
)

FEW = 2
"""One NaN is ignored; this many in a row, with no finite value after them, are not."""

OFTEN = 4
OFTEN_SHARE = 0.2
"""This many NaN losses are more than single bad batches, although finite ones come between."""
MOST = 3
MOST_SHARE = 0.6
"""The same in a log with only a few readings."""

MANY_TIMES = 30.0
HUGE = 100.0
FEW_LATE = 3
SOME_TIMES = 5.0
LARGE = 5.0
"""A loss that was small once, and is this large at the end, diverged."""

_BEGINS = lazy_pattern(r"^\s*Epoch 1/\d+\s*$")

FIND_THE_FIRST_NAN = (
    Fix(do="find the operation that gives the first NaN, in PyTorch", code="torch.autograd.set_detect_anomaly(True)"),
    Fix(do="find the operation that gives the first NaN, in TensorFlow", code="tf.debugging.enable_check_numerics()"),
    Fix(do="find the operation that gives the first NaN, in JAX", command="export JAX_DEBUG_NANS=True"),
)
CALMER = Fix(do="lower the learning rate, warm up longer, clip gradients", safety=Safety.CHANGES_RESULTS)

_Readings = dict[tuple[str, str], dict[int, tuple[bool, Evidence[Fact]]]]


@rule(
    id="NUM001",
    cause=Cause.NUMERIC_NAN_OR_DIVERGENCE,
    needs=(NonFinite, StepSeen),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.USER_CODE_EXCEPTION, Cause.NUMERIC_PLATEAU),
)
def nan_or_divergence(seen: EvidenceSet) -> Findings:
    """The loss or the gradients became NaN or infinite.

    ## What it looks like
    `Model diverged with loss = NaN`, `Current loss scale already at minimum`, `found NaN in local grad norm`,
    a `FloatingPointError`, or a loss that is printed as nan to the end of the log.

    ## Why it happens
    Too large a learning rate, half precision without (or with exhausted) loss scaling, a bad batch on one
    rank (its NaN reaches all ranks with the next all-reduce), a division by zero or a logarithm of zero, or faulty
    hardware.

    ## How we know
    The framework or the program checks the values and says so. We name the first rank that shows one. Where nothing
    failed, but the loss is many times what it was up to the end of the log, we report a warning.

    ## What to do
    Look at that rank's batch at that step; lower the learning rate, clip gradients, try bfloat16.

    ## When this is wrong
    Mixed precision skips single overflowing steps on purpose; we do not count those.
    """
    if seen.all(LossNotFinite):
        return  # the guards looked at every rank's own loss: NUM202 reports it
    stopped = [e for e in seen.all(NonFinite) if e.fact.fatal and not seen.survived(e)]
    if stopped:
        yield _found(_first_signs(seen, stopped), stopped[0])
        return
    readings = _readings(seen)
    lasting = _lasting(seen, readings) or _frequent(seen, readings)
    if not lasting and not seen.broken:
        grown = _grown(seen)
        if grown:
            yield _found(grown, grown[0], severity=Severity.WARNING, confidence=Confidence.SUPPORTED, grew=True)
            return
        last = _last_reading(seen, readings)
        if last:
            yield _found(last, last[0], severity=Severity.WARNING, confidence=Confidence.HYPOTHESIS)
            return
    if lasting:
        quiet = not seen.broken
        unnamed = _unnamed_end(seen)
        yield _found(
            lasting,
            lasting[0],
            severity=Severity.FATAL if quiet or unnamed else Severity.WARNING,
            confidence=Confidence.HYPOTHESIS if unnamed else Confidence.SUPPORTED,
        )


def _unnamed_end(seen: EvidenceSet) -> bool:
    """Whether the only sign of failure is a traceback cut off before its exception: NaN losses may be the reason."""
    cut = [e for e in seen.all(TracebackCut) if not seen.survived(e)]
    told = (ExceptionRaised, FatalSignal, NativeAbort, ProcessExited)
    return bool(cut) and not any(seen.all(kind) for kind in told)


def _first_signs(seen: EvidenceSet, stopped: list[Evidence[NonFinite]]) -> tuple[Evidence[Fact], ...]:
    printed = [
        e
        for e in seen.all(NonFinite)
        if not e.fact.fatal and e.fact.what in ("loss", "nan", "NaN", "inf", "not finite")
    ]
    both = sorted((*printed, *stopped), key=lambda e: seen.position.get(id(e), 0))
    return tuple(both[:8])


def _readings(seen: EvidenceSet) -> _Readings:
    """Every printed loss, by stream and line, and whether it was NaN."""
    readings: _Readings = {}
    for step in seen.all(StepSeen):
        if step.fact.loss is not None and step.origin.line is not None:
            key = step.origin.writer
            readings.setdefault(key, {})[step.origin.line] = (not math.isfinite(step.fact.loss), step)
    for odd in seen.all(NonFinite):
        if odd.fact.what in ("loss", "grad_norm", "gradnorm") and not odd.fact.fatal and odd.origin.line is not None:
            key = odd.origin.writer
            readings.setdefault(key, {})[odd.origin.line] = (True, odd)
    return readings


def _frequent(seen: EvidenceSet, readings: _Readings) -> tuple[Evidence[Fact], ...]:
    """NaN losses that keep coming between finite ones."""
    for by_line in readings.values():
        odd = [e for bad, e in by_line.values() if bad and (not isinstance(e.fact, NonFinite) or e.fact.what == "loss")]
        many = len(odd) >= OFTEN and len(odd) >= OFTEN_SHARE * len(by_line)
        if many or (len(odd) >= MOST and len(odd) >= MOST_SHARE * len(by_line)):
            return tuple(sorted(odd, key=lambda e: seen.position.get(id(e), 0))[:8])
    return ()


def _lasting(seen: EvidenceSet, readings: _Readings) -> tuple[Evidence[Fact], ...]:
    """NaN losses that no finite one follows in their stream."""
    found: list[Evidence[Fact]] = []
    for by_line in readings.values():
        tail: list[Evidence[Fact]] = []
        for line in sorted(by_line, reverse=True):
            bad, evidence = by_line[line]
            if not bad:
                break
            tail.append(evidence)
        found.extend(reversed(tail))
    return tuple(sorted(found, key=lambda e: seen.position.get(id(e), 0))[:8]) if len(found) >= FEW else ()


def _last_reading(seen: EvidenceSet, readings: _Readings) -> tuple[Evidence[Fact], ...]:
    """A stream's last loss, if it is NaN and not from the first step: training rarely recovers from that."""
    for by_line in readings.values():
        bad, evidence = by_line[max(by_line)]
        fact = evidence.fact
        step = fact.step if isinstance(fact, (NonFinite, StepSeen)) else None
        if bad and step and (not isinstance(fact, NonFinite) or fact.what == "loss"):
            return (evidence,)
    return ()


def _grown(seen: EvidenceSet) -> tuple[Evidence[Fact], ...]:
    """A loss that rises to many times its earlier value and stays there to the end of the log."""
    streams: dict[tuple[str, str], list[Evidence[StepSeen]]] = {}
    for step in seen.all(StepSeen):
        key = step.origin.writer
        if step.fact.loss is not None and math.isfinite(step.fact.loss):
            streams.setdefault(key, []).append(step)
        elif step.fact.step is None and _BEGINS.search(step.quote):
            streams.pop(key, None)  # another training begins, perhaps of another model
    for readings in streams.values():
        losses = [e.fact.loss or 0.0 for e in readings]
        if len(losses) < FEW + 1 or losses[0] <= 0:
            continue
        start = min(losses[: max(1, len(losses) // 2)])
        late = losses[-2:]
        if len(losses) >= 2 * FEW_LATE and min(losses[-FEW_LATE:]) >= max(LARGE, SOME_TIMES * max(losses[:FEW_LATE])):
            return tuple(readings[-FEW_LATE:])
        if start > 0 and min(late) >= MANY_TIMES * start and min(late) >= HUGE and max(losses[:2]) < min(late):
            return tuple(e for e in readings if (e.fact.loss or 0.0) >= MANY_TIMES * start)[:8]
    return ()


def _found(
    signs: tuple[Evidence[Fact], ...],
    main: Evidence[Fact],
    severity: Severity | None = None,
    confidence: Confidence | None = None,
    grew: bool = False,
) -> Found:
    first = signs[0]
    who = first.who if first.who is not None else main.who
    fact = first.fact
    step = fact.step if isinstance(fact, (NonFinite, StepSeen)) else None
    what = fact.what if isinstance(fact, NonFinite) and fact.what and len(fact.what) < 60 else "the loss"
    named = f"{ranks((who,))}: " if who is not None else ""
    at = f" at step {step}" if step is not None else ""
    subject = what if what not in ("nan", "NaN", "inf", "Inf", "loss", "-inf") else "the loss or a gradient"
    happened = subject if "encountered" in subject else f"{subject} was not finite"
    return Found(
        title=f"{named}{'the loss grew without bound' if grew else happened}{at}",
        because=(
            "the loss rose to many times its earlier value and stayed there to the end of the log"
            if grew
            else "training stopped because a value was NaN or infinite"
            if severity is None
            else "the loss is NaN in the last lines, or repeatedly"
        ),
        evidence=signs,
        ranks=(who,) if who is not None else None,
        severity=severity,
        confidence=confidence,
        fixes=(
            Fix(do="look at that rank's batch at that step for NaN, empty or extreme values"),
            CALMER,
            Fix(do="train in bfloat16 or float32 instead of float16", safety=Safety.CHANGES_RESULTS),
            *FIND_THE_FIRST_NAN,
        ),
    )
