# SPDX-License-Identifier: Apache-2.0
"""SYN210: the others waited in vain for a rank that was alive and still busy elsewhere."""

from __future__ import annotations

from keepstep.model.facts import ConnectFailed, Fact, PeerAwaited, RendezvousTimeout, Why
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, duration, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.late_arrivals import came_too_late, gave_up
from keepstep.rules.asking.timelines import AT, LateAtEnd, late
from keepstep.rules.sync._waiting import was

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
        Cause.CONFIG_LOCALHOST_ADDRESS,
    ),
)
def late_rank(seen: EvidenceSet) -> Findings:
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
    failed = gave_up(seen)
    waiting = {e.who for e in failed if e.who is not None}
    came = _came_after(seen, failed, waiting)
    if came is not None:
        yield came
        return
    busy = late(seen, waiting) if waiting else []
    if not busy or any(e.fact.why is Why.UNREACHABLE for e in seen.all(ConnectFailed)):
        return
    if all(isinstance(e.fact, ConnectFailed) for e in failed) and busy[0].rank != 0:
        return  # a connection that fails at the start is one to rank 0
    ranks = tuple(each.rank for each in busy)
    others = say_ranks(sorted(waiting))
    yield Found(
        title=f"{say_ranks(ranks)} {was(ranks)} still {busy[0].doing} when {others} waited in vain",
        because=f"the output of {say_ranks(ranks)} ends in that work, without an error or an attempt to connect",
        evidence=(*(each.evidence for each in busy[:3]), *failed[:3]),
        ranks=ranks if len(ranks) <= MOST else (),
        confidence=Confidence.SUPPORTED if all(each.sure for each in busy) else Confidence.HYPOTHESIS,
        fixes=_fixes(busy),
    )


def _came_after(seen: EvidenceSet, failed: list[Evidence[Fact]], waiting: set[int]) -> Found | None:
    """Ranks that began to connect only after all others had given up."""
    late = came_too_late(seen)
    if not late or len(late) > MOST:
        return None
    ranks = tuple(sorted(late))
    others = sorted(waiting - set(late))
    return Found(
        title=f"{say_ranks(ranks)} began to connect {duration(min(after for _, after in late.values()))} after "
        f"{say_ranks(others)} had given up",
        because="by the times in their logs, it came too late; no evidence shows a fault of the network",
        evidence=(*(start for start, _ in late.values()), *[e for e in failed if e.who in others][:3]),
        ranks=ranks,
        confidence=Confidence.SUPPORTED,
        fixes=_MORE_TIME,
    )


def _fixes(busy: list[LateAtEnd]) -> tuple[Fix, ...]:
    work = "that work" if busy[0].doing.startswith(f"{AT} ") else busy[0].doing
    first = Fix(do=f"finish {work} before the ranks meet: in the image, in a step of its own, or on every host")
    return (first, *_MORE_TIME)


_MORE_TIME = (
    Fix(
        do="give the ranks more time to meet, or find out what keeps the late one",
        code="dist.init_process_group(..., timeout=datetime.timedelta(hours=1))"
        "  # JAX: jax.distributed.initialize(initialization_timeout=3600)",
    ),
)
