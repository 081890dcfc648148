# SPDX-License-Identifier: Apache-2.0
"""WRK004: after a restart, ranks went to an address of the attempt before."""

from __future__ import annotations

import re

from keepstep.model.facts import (
    ConnectFailed,
    EndpointGiven,
    Fact,
    FatalSignal,
    LifeBegan,
    LifeEnded,
    OomKilled,
    StepSeen,
    Why,
    WorldSeen,
)
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
    rule,
)

_DEADLY: tuple[type[Fact], ...] = (FatalSignal, OomKilled)
_PLACE = lazy_pattern(r"^\[?(?P<host>[\w.\-:%]+?)\]?(?::|<)(?P<port>\d{2,5})>?$")


@rule(
    id="WRK004",
    cause=Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
    needs=(LifeBegan, LifeEnded),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.NETWORK_TIMEOUT_SLOW),
)
def stale_address(seen: EvidenceSet) -> Findings:
    """After a restart, ranks went to an address that belonged to the attempt before.

    ## What it looks like
    A pod, a worker group or a whole job starts again. Then connections are refused at a port that changes with every
    start: the one of NCCL's bootstrap, or of JAX's coordinator, while rank 0 listens at another port.

    ## Why it happens
    The address was kept in a store, an endpoint or a file that outlived the attempt. Or only one member was restarted:
    the others formed their group long ago and do not listen any more.

    ## How we know
    The log shows the restart, and nothing that failed between it and the refused connection. The host answers, so the
    network is not to blame.

    ## What to do
    Restart all members together, and keep the address under the number of the attempt.

    ## When this is wrong
    The peer started as well and crashed at once, and its output is missing.
    """
    again = _again(seen)
    refused = [e for e in seen.all(ConnectFailed) if _went_nowhere(e) and not seen.survived(e)]
    if not again or not refused or any(seen.all(kind) for kind in _DEADLY):
        return
    refused = [e for e in refused if _after(e, again) and not _trained_between(seen, again, e)]
    given = {e.fact.port for e in seen.all(EndpointGiven)}
    serves = [e for e in seen.all(WorldSeen) if e.who == 0 and _PLACE.match(e.fact.role or "")]
    other = [(e, s) for e in refused for s in serves[-1:] if _same_host_other_port(e, s)]
    ranks = tuple(dict.fromkeys(e.who for e in refused if e.who is not None))
    if other:
        failed, served = other[0]
        yield _found(
            f"ranks went to {failed.fact.peer}, but after the restart rank 0 listens at {served.fact.role}",
            "both ports are on the same host, and the first one belongs to no process of this attempt",
            (*again[:2], served, *refused[:4]),
            ranks,
        )
        return
    stale = [e for e in refused if (at := _place(e.fact.peer)) and at[1] not in given and e.fact.final]
    if stale and not serves:
        counted = any(isinstance(e.fact, LifeBegan) and e.fact.restarts for e in again)
        yield _found(
            f"a restarted process went to {stale[0].fact.peer}, where nothing listens any more",
            "the port is not the meeting place but one that each start chooses anew, and the log shows a restart",
            (*again[:2], *stale[:4]),
            ranks,
            Confidence.SUPPORTED if counted else Confidence.HYPOTHESIS,
        )


def _found(
    title: str,
    because: str,
    evidence: tuple[Evidence[Fact], ...],
    ranks: tuple[int, ...],
    confidence: Confidence = Confidence.SUPPORTED,
) -> Found:
    return Found(
        title=title,
        because=because,
        evidence=evidence,
        ranks=ranks,
        confidence=confidence,
        fixes=(
            Fix(do="restart all members together, from the last checkpoint"),
            Fix(do="keep the published address under the number of the attempt, or clear it before a restart"),
        ),
    )


def _again(seen: EvidenceSet) -> list[Evidence[Fact]]:
    """Where the log says that a member or the run was started again."""
    began = [e for e in seen.all(LifeBegan) if (e.fact.restarts or 0) >= 1 or (e.fact.attempt or 0) > 1]
    return [*began, *seen.all(LifeEnded)]


def _went_nowhere(failed: Evidence[ConnectFailed]) -> bool:
    aborted = failed.fact.why is Why.FAILED and re.search(r"(?i)abort|reset", failed.quote) is not None
    return failed.fact.why is Why.REFUSED or aborted


def _after(failed: Evidence[ConnectFailed], again: list[Evidence[Fact]]) -> bool:
    return any(
        e.origin.source != failed.origin.source or (e.origin.line or 0) <= (failed.origin.line or 0) for e in again
    )


def _trained_between(seen: EvidenceSet, again: list[Evidence[Fact]], failed: Evidence[ConnectFailed]) -> bool:
    """Whether the new attempt had formed its group already: then this is another trouble."""
    last = max((e.origin.line or 0 for e in again if e.origin.source == failed.origin.source), default=0)
    return any(
        e.origin.source == failed.origin.source and last < (e.origin.line or 0) < (failed.origin.line or 0)
        for e in seen.all(StepSeen)
    )


def _place(address: str | None) -> tuple[str, int] | None:
    match = _PLACE.match(address or "")
    return (match["host"], int(match["port"])) if match else None


def _same_host_other_port(failed: Evidence[ConnectFailed], served: Evidence[WorldSeen]) -> bool:
    one, two = _place(failed.fact.peer), _place(served.fact.role)
    return one is not None and two is not None and one[0] == two[0] and one[1] != two[1]
