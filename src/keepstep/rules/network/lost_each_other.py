# SPDX-License-Identifier: Apache-2.0
"""NET012: two ranks lost each other while both were alive."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.network import PeerLost
from keepstep.core.facts.process import ProcessSeen
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import ranks as say_ranks

_SILENCE = ("heartbeats stopped", "heartbeats got no answer")


@rule(
    id="NET012",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(PeerLost,),
    confidence=Confidence.SUPPORTED,
    explains=(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    ),
)
def lost_each_other(seen: EvidenceSet) -> Iterator[Found]:
    """Two ranks each missed the other's heartbeats, so that both lived and nothing passed between them.

    ## What it looks like
    The coordinator prints `tasks are unhealthy (stopped sending heartbeats)` and names a task, and that very task
    prints `DEADLINE_EXCEEDED` of its own `CoordinationService/Heartbeat` at about the same time; or the named task
    itself prints that it was found silent.

    ## Why it happens
    A firewall, route, link or host interface between them went away in the middle of the run.

    ## How we know
    A process that has died or hangs does not complain of the other's silence; here each side does, and the kernel
    has not shown either of them stopped.

    ## What to do
    Look at the network between the two hosts at that time: firewalls, conntrack tables, links, routes.

    ## When this is wrong
    A host that was frozen for a while (suspended, out of memory) misses answers and is missed as well.
    """
    frozen = {each.who for each in seen.all(ProcessSeen) if each.fact.state in ("T", "t")}
    lost: dict[tuple[int, int], Evidence[PeerLost]] = {}
    for each in seen.all(PeerLost):
        who, peer = each.who, each.fact.peer_rank
        if who is not None and peer is not None and each.fact.how in _SILENCE and not frozen.intersection((who, peer)):
            lost.setdefault((who, peer), each)
    deaf = [each for (one, other), each in lost.items() if one == other]
    if deaf:
        yield _not_heard(deaf, [each for (one, other), each in lost.items() if one != other])
        return
    pairs = [(one, other) for one, other in lost if one < other and (other, one) in lost]
    if not pairs:
        return
    far = tuple(dict.fromkeys(other for _, other in pairs))
    near = tuple(dict.fromkeys(one for one, _ in pairs))
    yield Found(
        title=f"{say_ranks(near)} and {say_ranks(far)} lost each other while both were alive",
        because="each missed the other's heartbeats, so what was between them stopped carrying packets",
        evidence=tuple(lost[key] for one, other in pairs[:3] for key in ((one, other), (other, one))),
        fixes=_FIXES,
    )


def _not_heard(deaf: list[Evidence[PeerLost]], missed: list[Evidence[PeerLost]]) -> Found:
    """A rank that hears the others say that it is silent."""
    who = tuple(dict.fromkeys(each.who for each in deaf if each.who is not None))
    return Found(
        title=f"{say_ranks(who)} was alive and heard the others, but was not heard by them",
        because="it was told of its own silence: the way from it to the coordinator was cut, not the way back",
        evidence=(*deaf, *missed[:2]),
        ranks=who,
        fixes=_FIXES,
    )


_FIXES = (
    Fix(do="look at firewalls, routes and links between these hosts at that time", command="iptables -nvL; ip -s link"),
    Fix(do="try the coordinator's port from the other host", command="nc -vz COORDINATOR PORT"),
)
