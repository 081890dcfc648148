# SPDX-License-Identifier: Apache-2.0
"""TPU003: the initialisation of the TPU system never finished."""

from __future__ import annotations

from keepstep.model.facts import FatalSignal, NativeAbort, TpuInitFailed
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Found, Standing, rule
from keepstep.rules.tpu.initialization_failure import FIXES, SLOW_TO_START


@rule(
    id="TPU003",
    cause=Cause.TPU_INITIALIZATION_FAILURE,
    needs=(TpuInitFailed,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
)
def set_up_unfinished(seen: EvidenceSet) -> Findings:
    """The initialisation of the TPU system took long, and nothing followed.

    ## What it looks like
    `TPU backend initialization is taking more than 60.0 seconds. Did you run your code on all TPU hosts?`,
    on every host that runs, and then nothing.

    ## Why it happens
    The initialisation waits for all hosts of the slice. The program was not started on all of them, or it crashed on
    one of them before it could join.

    ## How we know
    JAX says that it is still waiting, and no step follows. That only shows a wait: any failure seen on another host
    comes first.

    ## What to do
    Start the program on all hosts of the slice at once, and read the log of the host that did not join.

    ## When this is wrong
    Large slices take minutes to start; then training goes on and nothing is reported.
    """
    slow = tuple(e for e in seen.all(TpuInitFailed) if SLOW_TO_START in e.fact.what and not seen.survived(e))
    if not slow:
        return
    crashed = bool(seen.all(FatalSignal) or seen.all(NativeAbort))
    yield Found(
        title="the TPU system did not finish its initialisation",
        because="it waits for all hosts of the slice, and the program is probably not running on all of them",
        evidence=slow,
        ranks=() if crashed else None,
        confidence=Confidence.HYPOTHESIS if crashed else None,
        fixes=FIXES,
    )
