# SPDX-License-Identifier: Apache-2.0
"""NET012: two ranks lost each other while both were alive."""

from __future__ import annotations

from keepstep.model.facts import PeerLost, ProcessSeen
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.api import ranks as say_ranks

_SILENCE = ("heartbeats stopped", "heartbeats got no answer")


@rule(
    id="NET012",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(PeerLost,),
    confidence=Confidence.SUPPORTED,
    explains=SEEN_BY_OTHER_RANKS,
)
def lost_each_other(seen: EvidenceSet) -> Findings:
    """Two ranks each missed the other's heartbeats: both were alive, and nothing passed between them.

    ## What it looks like
    The coordinator prints `tasks are unhealthy (stopped sending heartbeats)` and names a task. At about the same time,
    that task prints `DEADLINE_EXCEEDED` for its own `CoordinationService/Heartbeat`, or prints that it was reported
    as silent.

    ## Why it happens
    A firewall, route, link or interface between them changed or failed during the run.

    ## How we know
    A process that has died or hangs does not complain about its peer's silence. Here each side does, and the kernel
    shows neither of them as stopped.

    ## What to do
    Look at the network between the two hosts at that time: firewalls, conntrack tables, links, routes.

    ## When this is wrong
    A host that froze for a while (suspended, out of memory) misses heartbeats and is itself missed.
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
        because="each missed the other's heartbeats, so the network between them stopped carrying packets",
        evidence=tuple(lost[key] for one, other in pairs[:3] for key in ((one, other), (other, one))),
        fixes=_FIXES,
    )


def _not_heard(deaf: list[Evidence[PeerLost]], missed: list[Evidence[PeerLost]]) -> Found:
    """The finding for a rank that was informed that it was silent."""
    who = tuple(dict.fromkeys(each.who for each in deaf if each.who is not None))
    return Found(
        title=f"{say_ranks(who)} stayed alive and heard the other ranks, but could not reach them",
        because="the coordinator could still inform it of its silence: only its path to the coordinator was cut",
        evidence=(*deaf, *missed[:2]),
        ranks=who,
        fixes=_FIXES,
    )


_FIXES = (
    Fix(do="look at firewalls, routes and links between these hosts at that time", command="iptables -nvL; ip -s link"),
    Fix(do="try the coordinator's port from the other host", command="nc -vz COORDINATOR PORT"),
)
