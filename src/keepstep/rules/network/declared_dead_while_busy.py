# SPDX-License-Identifier: Apache-2.0
"""NET121: a rank was declared dead by its heartbeats while it was alive and busy."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised, Fact, FatalSignal, GroupShutDown, PeerLost, StreamEnded
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.exceptions import is_of_peers, is_wrapper
from keepstep.rules.asking.timelines import own_end, what_it_did

MOST = 2
"""If more ranks than this fell silent, no work of theirs explains it."""
WENT_ON_S = 10.0
"""A rank that writes this long after others took it for dead was alive. Less may be what was buffered."""
Alive = tuple[Evidence[Fact], str]


@rule(
    id="NET121",
    cause=Cause.NETWORK_TIMEOUT_SLOW,
    needs=(PeerLost,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK),
)
def declared_dead_while_busy(seen: EvidenceSet) -> Findings:
    """A rank missed its heartbeats because it was busy; it was neither dead nor out of reach.

    ## What it looks like
    `heartbeat timeout`, `Terminating process because the JAX distributed service detected fatal errors`; and the rank
    that is said to be dead goes on writing, or ends its own words with a long work: it compiles, saves, copies,
    tokenizes, allocates.

    ## Why it happens
    A call that holds the interpreter or the whole machine keeps the thread that sends heartbeats from running.

    ## How we know
    By the rank's own output: what it wrote last, and when. It reports no failure of its own, and no signal ended it.

    ## What to do
    Give heartbeats more time, or divide the long work into parts.

    ## When this is wrong
    The rank died in the middle of that work without a word: the kernel killed it, or its host failed.
    """
    lost = [e for e in seen.all(PeerLost) if "heartbeat" in e.fact.how and not seen.survived(e)]
    gone = {e.fact.peer_rank for e in lost if e.fact.peer_rank is not None}
    ended = seen.broken or any(not seen.survived(e) for e in seen.all(GroupShutDown))
    if not 0 < len(gone) <= MOST or not ended:
        return
    alive = {rank: found for rank in sorted(gone) if (found := _alive(seen, rank, lost)) is not None}
    if alive.keys() != gone:
        return
    doing = next(iter(alive.values()))[1]
    ranks = tuple(alive)
    yield Found(
        title=f"{say_ranks(ranks)} {'was' if len(ranks) == 1 else 'were'} {doing} when the others took it for dead",
        because="its heartbeats stopped, but its own output shows that it was alive, and no failure",
        evidence=(*(end for end, _ in alive.values()), *lost[:3]),
        ranks=ranks,
        fixes=(
            Fix(
                do="give heartbeats more time, in JAX:",
                code="jax.distributed.initialize(heartbeat_timeout_seconds=600)",
            ),
            Fix(do="divide the long work into parts, or do it before the ranks meet"),
        ),
    )


def _alive(seen: EvidenceSet, rank: int, lost: list[Evidence[PeerLost]]) -> Alive | None:
    """The end of the rank's output and what it was doing, if that shows that it was alive."""
    if _failed(seen, rank):
        return None
    every = seen.all(StreamEnded)
    ends = [e for e in every if e.who == rank]
    if not ends and len(every) == 1 and rank == 0:  # the log of the process that serves the others, and lost itself
        ends = [e for e in every if e.who is None]
    declared = min((e.at for e in lost if e.fact.peer_rank == rank and e.at is not None), default=None)
    for end in ends:
        doing = what_it_did(seen, end)
        if doing is not None:
            return own_end(seen, end), doing
    later = [e for e in ends if e.at is not None and declared is not None and e.at > declared + WENT_ON_S]
    return (later[-1], "still writing") if later else None


def _failed(seen: EvidenceSet, rank: int) -> bool:
    """Whether the rank failed for a reason of its own. An abort is how a rank ends that was declared dead."""
    raised: list[Evidence[Fact]] = [
        e
        for e in seen.all(ExceptionRaised)
        if not seen.survived(e) and not is_of_peers(e.fact) and not is_wrapper(e.fact)
    ]
    signals = {e.fact.signal for e in seen.all(FatalSignal) if e.who == rank}
    signals |= {e.fact.signal for e in seen.bad_exits if e.who == rank and e.fact.signal}
    return bool(signals - {"SIGABRT", "SIGTERM"}) or any(e.who == rank for e in raised)
