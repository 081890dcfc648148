# SPDX-License-Identifier: Apache-2.0
"""NET060: a node of a run on several nodes fell silent."""

from __future__ import annotations

from keepstep.model.facts import NodeLost
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, ranks, rule


@rule(
    id="NET060",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(NodeLost,),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.WORKER_PARAMETER_SERVER_LOST),
)
def node_silent(seen: EvidenceSet) -> Findings:
    """A node of the run fell silent, and did not come back in time.

    ## What it looks like
    `keepstep run` on several nodes says `host-b, with ranks 4-7, has been silent for 2.1 s`. Ranks of other nodes then
    lose their connections, or wait.

    ## Why it happens
    The machine is down, or the network between it and the leader drops packets.

    ## How we know
    Every agent says twice a second that it lives. The leader heard nothing from this one for longer than a node may be
    silent, and its connection was not closed, as it is when only the agent ends.

    ## What to do
    See whether the machine is up, and whether it can be reached from the leader. `keepstep check network` between the
    two shows which packets get lost.

    ## When this is wrong
    When the leader itself was cut off, all the other nodes fall silent at once. Then look at the leader's machine.
    """
    for lost in seen.groups(NodeLost, by=lambda fact: fact.node):
        fact = lost[-1].fact
        if not fact.closed:
            whom = f", with {ranks(fact.ranks)}," if fact.ranks else ""
            yield Found(
                title=f"{fact.host}{whom} went silent",
                because="nothing has arrived from it any more: the machine is down, or the network drops its packets",
                evidence=lost,
                ranks=fact.ranks,
                fixes=(
                    Fix(
                        do="see whether the machine is up, and whether it can be reached from the leader",
                        command=f"ping -c 3 {fact.host}",
                    ),
                ),
            )
