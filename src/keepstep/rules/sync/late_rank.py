# SPDX-License-Identifier: Apache-2.0
"""SYN210: the others waited in vain for a rank that was alive and still busy elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import WorldSeen
from keepstep.core.facts.network import ConnectFailed, PeerAwaited, RendezvousTimeout, Why
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule
from keepstep.core.wording import duration
from keepstep.core.wording import ranks as say_ranks
from keepstep.rules.questions.timelines import Late, late
from keepstep.rules.sync._waiting import was

OFTEN = 3
"""A healthy start waits a little too."""
ZONES_S = 1200.0
"""Clocks that differ by more may be in different time zones."""
MOST = 2
"""Of more busy ranks than this none is named: all of them were late."""


@rule(
    id="SYN210",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(RendezvousTimeout, ConnectFailed, PeerAwaited),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.TPU_INITIALIZATION_FAILURE,
    ),
)
def late_rank(seen: EvidenceSet) -> Iterator[Found]:
    """Ranks waited in vain, at the start, for a rank that was still busy with something else.

    ## What it looks like
    `Timed out after 301 seconds waiting for clients. 1/2 clients joined`, `Barrier timed out`, `The client socket has
    timed out`, `still waiting for response from worker`, on all ranks but one. The last line of the other rank shows
    that it was still installing packages, downloading, compiling, reading its data or waiting for a lock. It reports
    no error.

    ## Why it happens
    The start takes longer on one host: its cache is cold, its disk or its network is slow, or only it does the work
    and the others wait.

    ## How we know
    The rank's own output goes on, ends in that work, and has no failed connection. So it could not have been reached
    yet, and the network is not to blame.

    ## What to do
    Do the slow work before the ranks meet, on every host, or give them more time to meet.

    ## When this is wrong
    The rank's output is buffered, and it had gone on to connect when the others gave up.
    """
    gave_up = _gave_up(seen)
    waiting = {e.who for e in gave_up if e.who is not None}
    came = _came_after(seen, gave_up, waiting)
    if came is not None:
        yield came
        return
    busy = late(seen, waiting) if waiting else []
    if not busy or any(e.fact.why is Why.UNREACHABLE for e in seen.all(ConnectFailed)):
        return
    if all(isinstance(e.fact, ConnectFailed) for e in gave_up) and busy[0].rank != 0:
        return  # a connection that fails at the start is one to rank 0
    ranks = tuple(each.rank for each in busy)
    others = say_ranks(sorted(waiting))
    yield Found(
        title=f"{say_ranks(ranks)} {was(ranks)} still {busy[0].doing} when {others} waited in vain",
        because=f"the output of {say_ranks(ranks)} ends in that work, without an error or an attempt to connect",
        evidence=(*(each.evidence for each in busy[:3]), *gave_up[:3]),
        ranks=ranks if len(ranks) <= MOST else (),
        confidence=Confidence.SUPPORTED if all(each.sure for each in busy) else Confidence.HYPOTHESIS,
        fixes=_fixes(busy),
    )


def _came_after(seen: EvidenceSet, gave_up: list[Evidence[Fact]], waiting: set[int]) -> Found | None:
    """Ranks that began to connect only after all others had given up."""
    over = max((e.at + e.within_s for e in gave_up if e.at is not None), default=None)
    if over is None or any(e.at is None for e in gave_up):
        return None
    began: dict[int, Evidence[Fact]] = {}
    for e in seen.all(WorldSeen):
        if e.who is not None and e.who not in waiting and e.at is not None:
            began.setdefault(e.who, e)
    after = {rank: e for rank, e in began.items() if 0 < (e.at or 0.0) - e.within_s - over < ZONES_S}
    if not after or len(after) < len(began) or len(after) > MOST:
        return None
    ranks = tuple(sorted(after))
    first = min(after.values(), key=lambda e: e.at or 0.0)
    return Found(
        title=f"{say_ranks(ranks)} began to connect {duration((first.at or 0.0) - over)} after "
        f"{say_ranks(sorted(waiting))} had given up",
        because="by the times in their logs, it came too late; no evidence shows a fault of the network",
        evidence=(*after.values(), *gave_up[:3]),
        ranks=ranks,
        confidence=Confidence.SUPPORTED,
        fixes=_MORE_TIME,
    )


def _gave_up(seen: EvidenceSet) -> list[Evidence[Fact]]:
    """The waits for other ranks that came to nothing."""
    awaited = [e for e in seen.all(PeerAwaited) if not e.fact.connected and not seen.survived(e)]
    found: list[Evidence[Fact]] = [*seen.all(RendezvousTimeout)]
    found += [e for e in seen.all(ConnectFailed) if e.fact.final]
    found += awaited if len(awaited) >= OFTEN else []
    return [e for e in found if not seen.survived(e)]


def _fixes(busy: list[Late]) -> tuple[Fix, ...]:
    first = Fix(
        do=f"finish {busy[0].doing} before the ranks meet: in the image, in a step of its own, or on every host"
    )
    return (first, *_MORE_TIME)


_MORE_TIME = (
    Fix(
        do="give the ranks more time to meet, or find out what keeps the late one",
        command="dist.init_process_group(..., timeout=datetime.timedelta(hours=1))"
        "  # JAX: jax.distributed.initialize(initialization_timeout=3600)",
    ),
)
