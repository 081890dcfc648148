# SPDX-License-Identifier: Apache-2.0
"""SLO004: functions are traced or compiled again and again."""

from __future__ import annotations

from keepstep.model.facts import Recompiling
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    lazy_pattern,
    rule,
    shorten,
)

_STEP = lazy_pattern(r"(?i)train|step|update|loss|grad|forward")
STORM = 3
"""Retracing is normal for the first few shapes; this many complaints are a storm."""
MANY = 50
"""Far more graphs than a settled torch_xla program needs."""
SETTLED = 10
"""Graphs that torch_xla may need until training, evaluation and a last batch are compiled."""
LONG_S = 2.0
"""Small functions are compiled all the time; one that takes this long should not be."""


@rule(
    id="SLO004",
    cause=Cause.SLOW_RECOMPILATION,
    needs=(Recompiling,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def recompilation(seen: EvidenceSet) -> Findings:
    """A function is traced or compiled again and again, which costs more than running it.

    ## What it looks like
    `5 out of the last 5 calls to <function train_step> triggered tf.function retracing`, growing with each step;
    `torch._dynamo hit config.recompile_limit`; JAX's `TRACING CACHE MISS`.

    ## Why it happens
    Arguments change in Python value, shape or dtype from step to step (a smaller last batch, a Python
    number, sequences of different lengths), or the function is created anew inside the loop.

    ## How we know
    The framework counts its own traces and complains, or it logs a long compilation of one function several times.

    ## What to do
    Pass tensors, fix or bucket shapes, create the function once.

    ## When this is wrong
    A handful of complaints at the start of a run, or at its first evaluation, does no harm.
    """
    storms = [e for e in seen.all(Recompiling) if e.fact.storm]
    if storms:
        yield _storm(storms)
        return
    again = seen.all(Recompiling)
    reports = [e for e in again if "CompileTime" in e.quote]
    counts = {e.fact.count for e in reports if e.fact.count is not None}
    growing = len(counts) > STORM or (len(counts) > 1 and max(counts) >= MANY)
    growing = growing or (len(counts) == STORM and max(counts) >= SETTLED) or max(counts, default=0) >= MANY
    again = tuple(e for e in again if growing or "CompileTime" not in e.quote)
    long = _often(_took_long(seen))
    again = tuple(e for e in again if e.fact.seconds is None or e in long)
    # small functions are compiled several times in every run
    announced = _often([e for e in seen.all(Recompiling) if _announced(e) and _STEP.search(e.fact.function or "")])
    again = tuple(e for e in again if not _announced(e) or e in announced)
    missed = _often([e for e in seen.all(Recompiling) if "CACHE MISS" in e.quote])
    again = tuple(e for e in again if "CACHE MISS" not in e.quote or e in missed)
    refused = [e for e in again if "LimitHit" in e.quote or "LimitExceeded" in e.quote]
    training = [e for e in again if "train" in (e.fact.function or "").lower() and not seen.survived(e)]
    told = len(again) >= STORM or growing or bool(training) or any("dynamo hit" in e.quote for e in again)
    if not told and not refused:
        return
    named = next((e.fact.function for e in again if e.fact.function), None)
    yield Found(
        title=f"{named or 'a function'} was traced or compiled again and again",
        because="the framework reports that nearly every call led to a new trace",
        evidence=again[:8],
        severity=Severity.FATAL if refused and seen.broken else None,
        fixes=(
            Fix(do="keep shapes constant", code="dataset.batch(n, drop_remainder=True)"),
            _PASS_TENSORS,
            Fix(do="have torch log why it compiles again", command="export TORCH_LOGS=recompiles"),
        ),
    )


_PASS_TENSORS = Fix(do="pass tensors instead of Python numbers, and create compiled functions outside the loop")


def _storm(storms: list[Evidence[Recompiling]]) -> Found:
    """A storm that the guard counted; it also saw what keeps changing."""
    worst = max(storms, key=lambda e: e.fact.count or 0).fact
    times = f"{worst.count} times" if worst.count else "again and again"
    return Found(
        title=f"{worst.function or 'a function'} was compiled {times}"
        + (f": {shorten(worst.reason, 120)}" if worst.reason else ""),
        because="the guard counted the compilations and compared the arguments that led to them",
        evidence=tuple(storms[:8]),
        confidence=Confidence.ESTABLISHED,
        fixes=(
            Fix(
                do="keep that argument's shape and type constant: pad or bucket it, drop the last batch",
                code="dataset.batch(n, drop_remainder=True)",
            ),
            _PASS_TENSORS,
        ),
    )


def _announced(evidence: Evidence[Recompiling]) -> bool:
    """JAX's line before it compiles. One alone means nothing: each function has a first time."""
    return bool(evidence.fact.reason) and "Compiling " in evidence.quote


def _often(events: list[Evidence[Recompiling]]) -> list[Evidence[Recompiling]]:
    """Those whose function is compiled several times in one stream."""
    names = [(e.origin.source, e.origin.stream, e.fact.function) for e in events]
    return [e for e, name in zip(events, names, strict=True) if names.count(name) >= STORM]


def _took_long(seen: EvidenceSet) -> list[Evidence[Recompiling]]:
    """Compilations that took long, each once."""
    timed: list[Evidence[Recompiling]] = []
    for each in seen.all(Recompiling):
        if (each.fact.seconds or 0.0) >= LONG_S and not any(_same(each, other) for other in timed[-8:]):
            timed.append(each)
    return timed


def _same(one: Evidence[Recompiling], other: Evidence[Recompiling]) -> bool:
    """Whether two loggers report one compilation, on adjacent lines."""
    near = abs((one.origin.line or 0) - (other.origin.line or 0)) <= 1
    return near and one.origin.source == other.origin.source and one.fact == other.fact
