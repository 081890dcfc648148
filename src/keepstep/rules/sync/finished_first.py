# SPDX-License-Identifier: Apache-2.0
"""SYN208: a rank finished normally while the others still needed it."""

from __future__ import annotations

from keepstep.model.facts import (
    CollectivesIssued,
    CollectiveTimeout,
    Fact,
    GroupShutDown,
    PeerLost,
    ProcessExited,
    RankEnded,
    RanksMissing,
    RendezvousTimeout,
    StreamEnded,
)
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    rule,
)
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.left_normally import Finished, finished_well, was_done_too
from keepstep.rules.asking.timelines import ever_done, says_it_leaves
from keepstep.signals.collective_history import SCRIPTS

SEEN_LATER_S = 2.0
"""How much later than the others whoever waits for a process, or its guard, may note its end."""


@rule(
    id="SYN208",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(RankEnded, ProcessExited, StreamEnded),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def finished_first(seen: EvidenceSet) -> Findings:
    """A rank finished normally while the others still needed it.

    ## What it looks like
    One rank exits with status 0. A moment or a timeout later the others fail: `Connection closed by peer`, a
    collective that times out, a barrier that one rank never reaches.

    ## Why it happens
    The rank took fewer steps, or left out a step that the others took: it had fewer batches, skipped a bad one with
    `continue`, or decided alone to stop. Collectives pair up by their order, so after a skipped step the ranks
    exchange the values of different steps without any error, until the first one is done.

    ## How we know
    The guard or the launcher recorded that the rank ended with status 0, and the others lost it or timed out
    afterwards. Where the guard recorded the collectives, the others issued one more than the rank that left.

    ## What to do
    Let all ranks take the same number of steps, and share the decision to skip or to stop.

    ## When this is wrong
    The rank was right to be done, and the others hung or fell behind for a reason that left no trace. Where they had
    done their last step too, and only lost it on their way out, this rule is silent: see NET004.
    """
    finished, done = finished_well(seen), ever_done(seen)
    failed = [
        e
        for kind in (PeerLost, CollectiveTimeout, GroupShutDown, RanksMissing, RendezvousTimeout)
        for e in seen.all(kind)
        if e.who is not None and e.who not in finished and e.who not in done and not seen.survived(e)
    ]
    if not finished or not failed or any(not _before(seen, each, e) for each in finished.values() for e in failed):
        return
    stayed = tuple(sorted({e.who for e in failed if e.who is not None}))
    ranks = tuple(sorted(finished))
    behind = _behind(seen, ranks, stayed)
    if not behind and all(was_done_too(seen, rank) for rank in stayed):
        return  # nothing was left to do together: NET004 says who left before the others had
    last = min((each.fact.issued[-1][0] for each in behind if each.who in finished), default=0)
    missing = (
        f"{say_ranks(stayed)} issued collective {last + 1} of their group, and {say_ranks(ranks)} did not"
        if behind
        else ""
    )
    yield Found(
        title=f"{say_ranks(ranks)} finished while {say_ranks(stayed)} still needed {_them(ranks)}",
        because=missing or f"{_how(finished)}; then {say_ranks(stayed)} missed {_them(ranks)}",
        evidence=(*list(finished.values())[:3], *behind[:4], *failed[:3]),
        ranks=ranks if len(ranks) <= len(stayed) else stayed,
        confidence=Confidence.ESTABLISHED if behind else Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="let all ranks take the same number of steps: look for batches that one rank skips, "
                "and for data that does not divide evenly"
            ),
            Fix(
                do="if a rank must skip or stop, let all ranks decide together",
                code="dist.all_reduce(skip, op=dist.ReduceOp.MAX)  # a tensor: 1 if this rank wants to skip",
            ),
        ),
    )


def _before(seen: EvidenceSet, finished: Evidence[Fact], failed: Evidence[Fact]) -> bool:
    """Whether it had finished by then, as far as times or lines show."""
    ended = failed.at or next((e.at for e in seen.all(RankEnded) if e.who == failed.who), None)
    if finished.at is not None and ended is not None:
        return finished.at <= ended + (SEEN_LATER_S if not isinstance(finished.fact, StreamEnded) else 0.0)
    if finished.origin.source != failed.origin.source:
        # a rank that leaves early while the others still train; one that is done may have been slower than they
        return isinstance(finished.fact, StreamEnded) and says_it_leaves(finished.fact.last)
    return (
        finished.origin.line is not None
        and failed.origin.line is not None
        and finished.origin.line < failed.origin.line
    )


def _behind(seen: EvidenceSet, gone: tuple[int, ...], stayed: tuple[int, ...]) -> list[Evidence[CollectivesIssued]]:
    """The records of one group that show that those who stayed issued more collectives than all who are gone."""
    for group in dict.fromkeys(e.fact.group for e in seen.all(CollectivesIssued)):
        last = {
            e.who: e
            for e in seen.all(CollectivesIssued)
            if e.fact.group == group != SCRIPTS and e.who is not None and e.fact.issued
        }
        if not all(rank in last and last[rank].fact.steps == _steps(seen, rank) for rank in gone):
            continue  # not recorded at its end
        most = max(last[rank].fact.issued[-1][0] for rank in gone)
        ahead = [last[rank] for rank in stayed if rank in last and last[rank].fact.issued[-1][0] > most]
        if ahead:
            return [*(last[rank] for rank in gone), *ahead]
    return []


def _steps(seen: EvidenceSet, rank: int) -> int | None:
    return next((e.fact.steps for e in seen.all(RankEnded) if e.who == rank), None)


def _how(finished: Finished) -> str:
    ranks = tuple(sorted(finished))
    if any(isinstance(e.fact, StreamEnded) for e in finished.values()):
        return f"the output of {say_ranks(ranks)} ends with a line that says so, and without an error"
    return f"{say_ranks(ranks)} ended with status 0"


def _them(ranks: tuple[int, ...]) -> str:
    return "it" if len(ranks) == 1 else "them"
