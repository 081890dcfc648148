# SPDX-License-Identifier: Apache-2.0
"""FRW005: the log ends in a native stack, and nothing says why it was printed."""

from __future__ import annotations

from keepstep.model.facts import (
    CoreDump,
    ExceptionRaised,
    FatalSignal,
    NativeAbort,
    NativeFrameSeen,
    ProcessExited,
    StackDump,
)
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule

FEW = 3
"""This many frames are a stack; a message may quote one."""


@rule(
    id="FRW005",
    cause=Cause.FRAMEWORK_BUG_SEGFAULT,
    needs=(NativeFrameSeen,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def stack_alone(seen: EvidenceSet) -> Findings:
    """The last lines of a log are native stack frames: a process crashed or aborted there.

    ## What it looks like
    Lines like `@     0x7fa3d072f46c do_rallocx` or `[ 3] /lib/libmpi.so.40(ompi_send+0x45)[0x7f5d]`, with neither a
    signal nor a message before them.

    ## Why it happens
    Native code prints its stack when it crashes; the line that names the signal was cut off, or went elsewhere.

    ## How we know
    Several such lines are near the end of the log, which reports no signal, abort, exception or exit.

    ## What to do
    Look for the top of the stack in the other logs. Write the next crash to a separate file per rank.

    ## When this is wrong
    Some libraries print a stack with a warning, and a program may print one on purpose.
    """
    frames = list({(e.origin.source, e.origin.line): e for e in seen.all(NativeFrameSeen)}.values())
    told = (FatalSignal, NativeAbort, CoreDump, StackDump, ExceptionRaised, ProcessExited)
    if len(frames) < FEW or any(seen.all(kind) for kind in told):
        return
    named = next((e.fact.function or e.fact.library for e in frames if e.fact.function or e.fact.library), None)
    yield Found(
        title="the log ends in the stack of a native crash" + (f" ({named[:40]})" if named else ""),
        because="its last lines are native stack frames, and nothing above them says why they were printed",
        evidence=tuple(frames[:6]),
        ranks=tuple(dict.fromkeys(e.who for e in frames if e.who is not None))[:1] or None,
        fixes=(
            Fix(do="find the top of this stack: the signal and the first frames"),
            Fix(do="make Python print its own stack too", command="export PYTHONFAULTHANDLER=1"),
        ),
    )
