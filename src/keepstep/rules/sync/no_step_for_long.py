# SPDX-License-Identifier: Apache-2.0
"""SYN214: the log goes on for long after the last step, and nothing says why."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from keepstep.model.facts import Phase, PhaseSeen, StepSeen, StreamEnded
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, duration, rule

LEAST_S, LEAST_STEPS, LEAST_SEEN = 1800.0, 50, 4
"""Without a step for this long, in seconds and in usual steps. A few steps show what is usual."""


@rule(
    id="SYN214",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(StepSeen,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.GUESS,
)
def no_step_for_long(seen: EvidenceSet) -> Findings:
    """The run printed no step for long, while other lines went on. Nobody reports an error.

    ## What it looks like
    A step every few seconds, then none for hours. A monitor, a heartbeat or a health check still prints its line, often
    with a use of 0 %.

    ## Why it happens
    A rank is stuck, in a collective, in its input or in a save, and nothing has a time limit.

    ## How we know
    The times of the lines: the last step, what is usual between two, and the last line of all.

    ## What to do
    Look at the stacks of all ranks while it hangs.

    ## When this is wrong
    The training was over, and what came then prints no step and no closing line.
    """
    if any(e.fact.phase is Phase.FINISHED for e in seen.all(PhaseSeen)):
        return
    steps = sorted((e for e in seen.all(StepSeen) if e.at is not None), key=lambda e: e.at or 0.0)
    ends = [e for e in seen.all(StreamEnded) if e.at is not None]
    if len(steps) < LEAST_SEEN or not ends:
        return
    last, end = steps[-1], max(ends, key=lambda e: e.at or 0.0)
    gaps = [later - earlier for earlier, later in pairwise(_times(steps))]
    if not gaps:
        return
    usual = median(gaps)
    silent = (end.at or 0.0) - (last.at or 0.0)
    if silent < max(LEAST_S, LEAST_STEPS * usual):
        return
    yield Found(
        title=f"no step for {duration(silent)}, while other lines went on",
        because=f"a step usually came every {duration(usual)}, and nothing says that the training was over",
        evidence=(last, end),
        ranks=(),
        fixes=(
            Fix(do="see where each rank is while it hangs", command="keepstep why --live"),
            Fix(do="give collectives a time limit: the next hang then ends by itself"),
        ),
    )


def _times(steps: list[Evidence[StepSeen]]) -> list[float]:
    return sorted({e.at for e in steps if e.at is not None})
