# SPDX-License-Identifier: Apache-2.0
"""SYN057: during training, ranks began to wait for another rank, and the log ends there."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, PeerAwaited, Standing, rule
from keepstep.rules.network.never_answered import interrupted, trained_before


@rule(
    id="SYN057",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(PeerAwaited,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.SYMPTOM,
)
def waits_after_training(seen: EvidenceSet) -> Findings:
    """Ranks that had trained together began to wait for another rank, and the log ends there.

    ## What it looks like
    After steps, an evaluation or a saved checkpoint, the last message is `Waiting to connect to client mesh master`
    or another one about waiting for a peer.

    ## Why it happens
    Ranks reached different rendezvous: one saves, evaluates or leaves under a condition that does not hold on the
    others, often inside a call that itself synchronises all ranks.

    ## How we know
    The peer had been reached before, training was under way, and the log ends in the wait.

    ## What to do
    Look for rendezvous, barriers and saves that only some ranks reach.

    ## When this is wrong
    The awaited peer died without leaving a message in this log.
    """
    waits = [e for e in seen.all(PeerAwaited) if not seen.survived(e) and trained_before(seen, e)]
    if not any(seen.is_last_word(e) or interrupted(seen, e) for e in waits):
        return
    yield Found(
        title="ranks waited for each other at different places after training had begun",
        because="training was under way, then ranks waited for a peer, and the log ends there",
        evidence=tuple(waits),
        ranks=(),
        fixes=(
            Fix(do="print where every rank is stuck", command="keepstep why --live"),
            Fix(do="let all ranks take part in calls that synchronise (save, rendezvous, barrier, evaluate)"),
        ),
    )
