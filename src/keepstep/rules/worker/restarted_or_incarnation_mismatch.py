# SPDX-License-Identifier: Apache-2.0
"""WRK001: one worker restarted while the others still used its old process."""

from __future__ import annotations

from keepstep.model.facts import ConnectFailed, MemberRestarted, RendezvousClosed, ServerStarted, StepSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.asking.fallout import FALLOUT, lasting, who
from keepstep.rules.asking.who_killed import HOW_PODS_ENDED


@rule(
    id="WRK001",
    cause=Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
    needs=(MemberRestarted, RendezvousClosed, ServerStarted),
    standing=Standing.SYMPTOM,
    explains=(
        *FALLOUT,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.WORKER_PARAMETER_SERVER_LOST,
    ),
)
def restarted_or_incarnation_mismatch(seen: EvidenceSet) -> Findings:
    """One worker restarted as a new process while the others still used the old one.

    ## What it looks like
    `unexpectedly tried to connect with a different incarnation. It has likely restarted`, `Unable to find a
    context_id matching the specified one`, `Your worker job was probably restarted`, or a rendezvous that was
    already closed when an agent came back to it.

    ## Why it happens
    A scheduler or supervisor restarted one task alone. The state that the group shares (sessions, contexts,
    communicators) belongs to the process that died, and the new one cannot join it.

    ## How we know
    The service compares the incarnation that it knows with the one that calls, and says that they differ.

    ## What to do
    Restart all workers together from the last checkpoint; then find out why the first one died.

    ## When this is wrong
    Two processes have the same index: then the "restart" is a second process (CFG001).
    """
    found = lasting(seen, MemberRestarted)
    if not any(e.fact.sure for e in found) and any(e.fact.final for e in seen.all(ConnectFailed)):
        found = ()
    if found:
        member = next((e.fact.member for e in found if e.fact.member), None)
        ranks = tuple(dict.fromkeys(e.fact.rank for e in found if e.fact.rank is not None))
        yield Found(
            title=f"{member or 'one worker'} restarted while the others still used its old process",
            because="the process that called is not the one that the group was formed with",
            evidence=found[:8],
            ranks=ranks or None,
            fixes=_FIXES,
        )
        return
    again = _started_again(seen)
    if again:
        yield Found(
            title=f"{who(again)} restarted alone, after the cluster had lost it",
            because="its log shows a second start after training steps, and the other ranks did not restart with it",
            evidence=again,
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    closed = lasting(seen, RendezvousClosed)
    if closed:
        yield Found(
            title="an agent came back to a rendezvous that was already closed",
            because="another agent had exited or restarted and closed it, so this one could not rejoin",
            evidence=closed[:4],
            confidence=Confidence.HYPOTHESIS,
            fixes=_FIXES,
        )


_FIXES = (
    Fix(do="restart all workers together, from the last checkpoint"),
    Fix(do="find out why the first one ended; in Kubernetes, print how its containers ended", command=HOW_PODS_ENDED),
)


def _started_again(seen: EvidenceSet) -> tuple[Evidence[ServerStarted], ...]:
    """Server starts in a log that trained before and not after; none where every rank's log has one."""
    by_source: dict[str, list[Evidence[ServerStarted]]] = {}
    for each in seen.all(ServerStarted):
        by_source.setdefault(each.origin.source, []).append(each)
    again = []
    for source, starts in by_source.items():
        steps = [e.origin.line or 0 for e in seen.all(StepSeen) if e.origin.source == source]
        first, last = starts[0].origin.line or 0, starts[-1].origin.line or 0
        if len(starts) > 1 and steps and first < max(steps) < last:
            again.append(starts[-1])
    return tuple(again) if len(again) < len(by_source) else ()
