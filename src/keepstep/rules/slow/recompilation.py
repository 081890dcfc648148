# SPDX-License-Identifier: Apache-2.0
"""SLO004: functions are traced or compiled again and again."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.training import Recompiling
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule

STORM = 3
"""Retracing is normal for the first few shapes; complaints this many are a storm."""
MANY = 50
"""Graphs that a settled torch_xla program does not need by far."""


@rule(
    id="SLO004",
    cause=Cause.SLOW_RECOMPILATION,
    needs=(Recompiling,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def recompilation(seen: EvidenceSet) -> Iterator[Found]:
    """A function is traced or compiled again and again, which costs more than running it.

    ## What it looks like
    `5 out of the last 5 calls to <function train_step> triggered tf.function retracing`, growing with each step;
    `torch._dynamo hit config.recompile_limit`; JAX's `TRACING CACHE MISS`.

    ## Why it happens
    Arguments change in Python value, shape or dtype from step to step (a last smaller batch, a Python
    number, sequences of differing length), or the function is made anew inside the loop.

    ## How we know
    The framework counts its own traces and complains.

    ## What to do
    Pass tensors, fix or bucket shapes, make the function once.

    ## When this is wrong
    A handful of complaints at the start of a run, or at its first evaluation, does no harm.
    """
    again = seen.all(Recompiling)
    reports = [e for e in again if "CompileTime" in e.quote]
    counts = {e.fact.count for e in reports if e.fact.count is not None}
    growing = len(counts) > STORM or (len(counts) > 1 and max(counts) >= MANY)
    again = tuple(e for e in again if growing or "CompileTime" not in e.quote)
    if len(again) < STORM and not growing and not any("dynamo hit" in e.quote for e in again):
        return
    named = next((e.fact.function for e in again if e.fact.function), None)
    yield Found(
        title=f"{named or 'a function'} was traced or compiled again and again",
        because="the framework reports that nearly every call led to a new trace",
        evidence=again[:8],
        fixes=(
            Fix(do="keep shapes constant", command="dataset.batch(n, drop_remainder=True)"),
            Fix(do="pass tensors in place of Python numbers, and make compiled functions outside of the loop"),
            Fix(do="see why torch compiles again", command="export TORCH_LOGS=recompiles"),
        ),
    )
