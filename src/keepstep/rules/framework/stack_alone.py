# SPDX-License-Identifier: Apache-2.0
"""FRW005: a log that ends in a native stack, of which nothing says why it was printed."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.process import (
    CoreDump,
    ExceptionRaised,
    FatalSignal,
    NativeAbort,
    NativeFrameSeen,
    ProcessExited,
    StackDump,
)
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule

FEW = 3
"""So many frames are a stack; one may be quoted by a message."""


@rule(
    id="FRW005",
    cause=Cause.FRAMEWORK_BUG_SEGFAULT,
    needs=(NativeFrameSeen,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def stack_alone(seen: EvidenceSet) -> Iterator[Found]:
    """The last lines of a log are frames of native code: a process was struck there, or ended itself.

    ## What it looks like
    Lines as `@     0x7fa3d072f46c do_rallocx` or `[ 3] /lib/libmpi.so.40(ompi_send+0x45)[0x7f5d]`, and neither a
    signal nor a message before them.

    ## Why it happens
    Native code prints its stack when it crashes; the line that names the signal was cut off, or went elsewhere.

    ## How we know
    Several such lines stand near the end of the log, and no signal, abort, exception or exit is told of.

    ## What to do
    Look for the head of the stack in the other logs; let the next crash be written to a file of its rank.

    ## When this is wrong
    Some libraries print a stack with a mere warning, and a program may print one on purpose.
    """
    frames = list({(e.origin.source, e.origin.line): e for e in seen.all(NativeFrameSeen)}.values())
    told = (FatalSignal, NativeAbort, CoreDump, StackDump, ExceptionRaised, ProcessExited)
    if len(frames) < FEW or any(seen.all(kind) for kind in told):
        return
    named = next((e.fact.function or e.fact.library for e in frames if e.fact.function or e.fact.library), None)
    yield Found(
        title="the log ends in the stack of a native crash" + (f" ({named[:40]})" if named else ""),
        because="its last lines are frames of native code, and nothing above them says why they were printed",
        evidence=tuple(frames[:6]),
        ranks=tuple(dict.fromkeys(e.who for e in frames if e.who is not None))[:1] or None,
        fixes=(
            Fix(do="find the head of this stack: the signal, and the first frames"),
            Fix(do="have Python print its own stack too", command="export PYTHONFAULTHANDLER=1"),
        ),
    )
