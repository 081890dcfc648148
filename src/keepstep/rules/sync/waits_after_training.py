# SPDX-License-Identifier: Apache-2.0
"""SYN057: in the middle of training ranks began to wait for another one, and that was the end of the log."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.network import PeerAwaited
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule
from keepstep.rules.network.never_answered import interrupted, trained_before


@rule(
    id="SYN057",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(PeerAwaited,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.SYMPTOM,
)
def waits_after_training(seen: EvidenceSet) -> Iterator[Found]:
    """Ranks that had trained together began to wait for another one, and nothing came after.

    ## What it looks like
    After steps, an evaluation or a saved checkpoint the last words are `Waiting to connect to client mesh master`
    or another message of waiting for a peer.

    ## Why it happens
    Ranks came to different rendezvous: one saves, evaluates or leaves behind a condition that the others do
    not take, often inside of a call that itself synchronises all ranks.

    ## How we know
    The peer had been reached before, training was under way, and the log ends in the wait.

    ## What to do
    Look for rendezvous, barriers and saves that only some ranks reach.

    ## When this is wrong
    The awaited peer has died without a word in this log.
    """
    waits = [e for e in seen.all(PeerAwaited) if not seen.survived(e) and trained_before(seen, e)]
    if not any(seen.is_last_word(e) or interrupted(seen, e) for e in waits):
        return
    yield Found(
        title="ranks waited for each other at different places after training had begun",
        because="training was under way, then ranks waited for a peer and nothing followed",
        evidence=tuple(waits),
        ranks=(),
        fixes=(
            Fix(do="see where every rank is stuck", command="keepstep why --live"),
            Fix(do="let all ranks take part in calls that synchronise (save, rendezvous, barrier, evaluate)"),
        ),
    )
