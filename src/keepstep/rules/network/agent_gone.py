# SPDX-License-Identifier: Apache-2.0
"""NET061: the agent of a node ended before the run."""

from __future__ import annotations

from keepstep.model.facts import NodeLost
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, ranks, rule


@rule(
    id="NET061",
    cause=Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    needs=(NodeLost,),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.WORKER_PARAMETER_SERVER_LOST),
)
def agent_gone(seen: EvidenceSet) -> Findings:
    """The agent of a node ended, and the ranks of that node with it.

    ## What it looks like
    `keepstep run` on several nodes says `host-b, with ranks 4-7, has been silent for 2.1 s: its agent is gone`. Ranks
    of other nodes then lose their connections.

    ## Why it happens
    Somebody killed the agent: an administrator, the scheduler, or the kernel for want of memory. Or the agent broke. If
    it only lost touch with the leader, it has ended its ranks itself, to let another attempt start.

    ## How we know
    The connection was closed by the other machine, which therefore lives, and no agent came back.

    ## What to do
    Look on that machine for what ended it: the kernel's log, the scheduler's log, the agent's own last words. If the
    leader's own ssh client was ended, look on the leader's host.

    ## When this is wrong
    When a proxy or a firewall between the two closes connections that live.
    """
    for lost in seen.groups(NodeLost, by=lambda fact: fact.node):
        fact = lost[-1].fact
        here = next((e.fact.here for e in reversed(lost) if e.fact.here is not None), None)
        if here is not None:
            yield Found(
                title=f"the connection to {fact.host} was ended on the leader's own host",
                because=f"{here}; nothing is known against {fact.host}, whose ranks end when their agent hears nothing",
                evidence=lost,
                ranks=(),
                fixes=(Fix(do="see on the leader's host what ended it", command="dmesg -T | tail -50"),),
            )
        elif fact.closed:
            whom = f", with {ranks(fact.ranks)}," if fact.ranks else ""
            yield Found(
                title=f"the agent on {fact.host}{whom} is gone",
                because=f"its connection ended ({fact.why}), and it did not come back",
                evidence=lost,
                ranks=fact.ranks,
                fixes=(Fix(do=f"see on {fact.host} what ended it", command=f"ssh {fact.host} 'dmesg -T | tail -50'"),),
            )
