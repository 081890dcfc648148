# SPDX-License-Identifier: Apache-2.0
"""NET050: a process waited for a peer that never answered."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised, Fact, PeerAwaited, PhaseSeen, StepSeen
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    lazy_pattern,
    listing,
    rule,
)

OFTEN = 3
"""A healthy start waits a little too."""
FEW_LINES = 4
_COUNT = lazy_pattern(r"^\d+ of \d+ tasks$")


@rule(
    id="NET050",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(PeerAwaited,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.SYMPTOM,
)
def never_answered(seen: EvidenceSet) -> Findings:
    """A process waited for a peer that never answered.

    ## What it looks like
    `CreateSession still waiting for response from worker: /job:ps/replica:0/task:0`, every ten seconds, and
    nothing else.

    ## Why it happens
    The peer was never started or has exited, its name or address differs from the one that the cluster lists, or a
    firewall drops the connection.

    ## How we know
    The process says many times whom it is waiting for, and training never begins. The log does not say why the peer
    is silent.

    ## What to do
    Check from the waiting host that the peer's name resolves and that its port answers.

    ## When this is wrong
    The peer only starts late. Then training begins after the messages.
    """
    waits = [e for e in seen.all(PeerAwaited) if not (e.fact.connected or seen.survived(e) or trained_before(seen, e))]
    waits = _counted_last(waits)
    peers = tuple(dict.fromkeys(e.fact.peer for e in waits if e.fact.peer))
    if not peers or not (
        len(waits) >= OFTEN * len(peers) or any(seen.is_last_word(e, FEW_LINES) or interrupted(seen, e) for e in waits)
    ):
        return
    yield Found(
        title=f"{listing(peers[:3])} never answered, and the other processes kept waiting",
        because="the peer is not running, or cannot be reached at the address that the cluster lists",
        evidence=tuple(waits[:6]),
        ranks=tuple(dict.fromkeys(e.fact.peer_rank for e in waits if e.fact.peer_rank is not None)) or None,
        fixes=(
            Fix(
                do="check the peer's name and port from the waiting host",
                command="getent hosts HOST && nc -vz HOST PORT",
            ),
            Fix(
                do="check that the peer's process is running, and listens on an address that others can reach",
                command="ss -ltnp",
            ),
        ),
    )


def _counted_last(waits: list[Evidence[PeerAwaited]]) -> list[Evidence[PeerAwaited]]:
    """Without peers that arrived later: a service that counts missing tasks names those still missing each time."""
    counts = {e.origin.source: e.origin.line or 0 for e in waits if _COUNT.match(e.fact.peer or "")}
    return [e for e in waits if (e.origin.line or 0) >= counts.get(e.origin.source, 0)]


def trained_before(seen: EvidenceSet, wait: Evidence[PeerAwaited]) -> bool:
    """Whether training was under way when the wait began: then the peer had already answered once."""
    line = wait.origin.line or 0
    known: tuple[Evidence[Fact], ...] = (*seen.all(StepSeen), *seen.all(PhaseSeen))
    return any(e.origin.source == wait.origin.source and (e.origin.line or 0) < line for e in known)


def interrupted(seen: EvidenceSet, wait: Evidence[PeerAwaited]) -> bool:
    """Whether only a keyboard interrupt ended the wait."""
    line = wait.origin.line or 0
    after = [
        e for e in seen.all(ExceptionRaised) if e.origin.source == wait.origin.source and (e.origin.line or 0) > line
    ]
    return bool(after) and all(e.fact.type == "KeyboardInterrupt" for e in after)
