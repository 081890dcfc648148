# SPDX-License-Identifier: Apache-2.0
"""SYN059: workers waited for a task that had to act first, and it never did."""

from __future__ import annotations

from keepstep.model.facts import Fact, PeerAwaited, SessionOpened
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule

OFTEN = 2
"""A healthy start also waits once: the chief needs a moment."""
SESSIONS = 3
"""A healthy worker opens one session, and another after a fault."""


@rule(
    id="SYN059",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(PeerAwaited, SessionOpened),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.SYMPTOM,
)
def waits_for_chief(seen: EvidenceSet) -> Findings:
    """Workers waited for a task that had to act first, and it never did.

    ## What it looks like
    `Waiting for model to be ready. Ready_for_local_init_op: Variables not initialized: ...`, every thirty
    seconds, and no step; or `Start master session` repeatedly, and nothing else.

    ## Why it happens
    Only the chief initializes the variables. It was not started, exited early, opened a session of its own instead
    of one with the cluster, or built a graph with other variable names.

    ## How we know
    The cluster answers (a session was created), the same wait repeats, and training never begins.

    ## What to do
    Look at the chief's log first. Let all workers build the same graph and open their session with the
    server's target.

    ## When this is wrong
    The chief only starts late or restores a large checkpoint; then training begins after the messages.
    """
    waits = [e for e in seen.all(PeerAwaited) if e.fact.connected and not seen.survived(e)]
    evidence: tuple[Evidence[Fact], ...] = tuple(waits)
    if len(waits) < OFTEN and not any(seen.is_last_word(e, OFTEN) for e in waits):
        opened = tuple(e for e in seen.all(SessionOpened) if not seen.survived(e))
        if (
            len(opened) < SESSIONS
            or not seen.is_last_word(opened[-1], OFTEN)
            or len({e.origin.source for e in opened}) > 1
        ):
            return
        evidence = opened
    who = (waits[0].fact.peer if waits else None) or "the chief, which makes the session ready"
    yield Found(
        title=f"the workers waited in vain for {who}",
        because="the cluster answers, but this task has not done what must come first",
        evidence=evidence[:6],
        ranks=tuple(dict.fromkeys(e.fact.peer_rank for e in waits if e.fact.peer_rank is not None)),
        fixes=(
            Fix(do="check in the chief's log (worker 0) that it runs, with `server.target` as its master"),
            Fix(do="build the same graph, with the same names, on all workers"),
        ),
    )
