# SPDX-License-Identifier: Apache-2.0
"""NET013: the ranks were started again and could not meet where they had met before."""

from __future__ import annotations

from keepstep.model.facts import ConnectFailed, Fact, PortTaken, RendezvousTimeout, StepSeen, WorldSeen
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.api import ranks as say_ranks

Starts = tuple[Evidence[WorldSeen], Evidence[WorldSeen]]


@rule(
    id="NET013",
    cause=Cause.NETWORK_PORT_IN_USE,
    needs=(WorldSeen,),
    confidence=Confidence.SUPPORTED,
    explains=(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.CONFIG_LOCALHOST_ADDRESS,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    ),
)
def met_here_before(seen: EvidenceSet) -> Findings:
    """The ranks were started again and could not meet at the address where they had met before.

    ## What it looks like
    The log of each rank has two starts. After the first one it trains. After the second one every rank, also the one
    that runs the coordinator, times out: `DEADLINE_EXCEEDED` in `RegisterTask`.

    ## Why it happens
    A process of the first start is still there and holds the port. gRPC allows two servers on one port, so the new
    coordinator starts without an error, and connections still reach the old one, which does not answer.

    ## How we know
    All ranks announced the same address twice, with steps in between, and no step after the second time. The rank that
    runs the coordinator could not reach it either, so the network between hosts is not to blame.

    ## What to do
    End the old processes, or choose another port for each start.

    ## When this is wrong
    The second start gave the ranks too little time to meet, or one of them was not started.
    """
    again = _started_again(seen)
    failed = {
        e.who: e
        for kind in (ConnectFailed, RendezvousTimeout)
        for e in seen.all(kind)
        if not seen.survived(e) and e.who in again and _after(again[e.who][1], e)
    }
    if len(again) < 2 or 0 not in failed or set(failed) != set(again) or seen.all(PortTaken):
        return
    if seen.world_size is not None and seen.world_size > len(again):
        return  # the others may not have come
    address = again[0][1].fact.role or ""
    port = address.rpartition(":")[2]
    yield Found(
        title=f"the ranks could not meet at {address} again: an old process may hold the port",
        because=f"{say_ranks(sorted(failed))} met there, were started again, and could not reach it any more, "
        "not even rank 0, which runs the coordinator",
        evidence=(*again[0], *failed.values())[:8],
        ranks=(0,),
        fixes=(
            Fix(
                do="look for a process of the first start that still has the port",
                command=f"ss -ltnp 'sport = :{port}'",
            ),
            Fix(do="end it, or give each start a port of its own"),
        ),
    )


def _started_again(seen: EvidenceSet) -> dict[int, Starts]:
    """The last two announcements of each rank's meeting point, if they are the same and steps lie only between them."""
    said: dict[int, list[Evidence[WorldSeen]]] = {}
    for each in seen.all(WorldSeen):
        if each.who is not None and ":" in (each.fact.role or "") and each.origin.line is not None:
            said.setdefault(each.who, []).append(each)
    found: dict[int, Starts] = {}
    for rank, starts in said.items():
        starts.sort(key=lambda e: e.origin.line or 0)
        if len(starts) < 2 or starts[-1].fact.role != starts[-2].fact.role:
            continue
        steps = [e for e in seen.all(StepSeen) if e.who == rank and _after(starts[-2], e)]
        if steps and not any(_after(starts[-1], e) for e in steps):
            found[rank] = (starts[-2], starts[-1])
    return found


def _after(first: Evidence[WorldSeen], second: Evidence[Fact]) -> bool:
    return first.origin.source == second.origin.source and (first.origin.line or 0) < (second.origin.line or 0)
