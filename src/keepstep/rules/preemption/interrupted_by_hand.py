# SPDX-License-Identifier: Apache-2.0
"""PRE002: somebody interrupted the program, and nothing shows why."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Found, Standing, ranks_of, rule
from keepstep.rules.asking.exceptions import Raised, short_type
from keepstep.rules.preemption.sigterm import BY_CTRL_C, BY_HAND, failed_before
from keepstep.story.rank_endings import INTERRUPTED


@rule(
    id="PRE002",
    cause=Cause.PREEMPTION_SIGTERM,
    needs=(ExceptionRaised,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.SYMPTOM,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED,),
)
def interrupted_by_hand(seen: EvidenceSet) -> Findings:
    """A person pressed Ctrl-C, or sent SIGINT, and no record of the launcher or the guard says more.

    ## What it looks like
    Tracebacks of all ranks that end in `KeyboardInterrupt`, sometimes with errors of helper threads below them.

    ## Why it happens
    The user had seen enough, or the run did not get on.

    ## How we know
    KeyboardInterrupt was not caught, and nothing had failed before it. It is named only if no other rule has an answer,
    because a person who ends a run has a reason: a hang that the stacks show goes first.

    ## What to do
    Start the run again from its newest checkpoint, or look for the hang before you end it (`keepstep why --live`).

    ## When this is wrong
    A launcher may send SIGINT too when another rank has failed.
    """
    raised = tuple(e for e in seen.all(ExceptionRaised) if short_type(e.fact) == INTERRUPTED and _ends_it(seen, e))
    if raised and not failed_before(seen, raised[0]):
        yield Found(
            title=BY_CTRL_C,
            because="KeyboardInterrupt ended the program, and nothing had failed before",
            evidence=raised[:8],
            ranks=ranks_of(raised),
            standing=Standing.GUESS,  # somebody had a reason: what else was seen says more
            fixes=BY_HAND,
        )


def _ends_it(seen: EvidenceSet, raised: Raised) -> bool:
    return not (raised.fact.logged or raised.fact.caught or raised.fact.chained or seen.survived(raised))
