# SPDX-License-Identifier: Apache-2.0
"""NET104: packets between two hosts of the job are dropped."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Found, LinkProbed, rule
from keepstep.rules.network._links import Blockage, blockages, opened, ports, shown


@rule(id="NET104", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def connections_dropped(seen: EvidenceSet) -> Findings:
    """Connections between hosts of the job get no answer: a firewall drops the packets.

    ## What it looks like
    `Connection timed out` after minutes, or a job that hangs while it starts, because the frameworks keep retrying.

    ## Why it happens
    A firewall on the target host, a security group or a network policy silently discards the packets.

    ## How we know
    The check's process on the target host was listening on that port, and both processes were talking to rank 0 at
    the time, but two attempts got no answer.

    ## What to do
    Add the printed rule on the host that the finding names.

    ## When this is wrong
    A broken route between the two hosts, or the loss of only the reply packets, looks the same.
    """
    found = [each for each in blockages(seen) if each.dropped and (not each.one_way or each.into or each.out_of)]
    for each, more in shown(found):
        yield Found(
            title=_title(each) + more,
            because="the check runs and listens there, so something between the hosts drops the packets: a firewall",
            evidence=each.evidence,
            ranks=each.ranks,
            fixes=opened(seen, each),
        )


def _title(each: Blockage) -> str:
    where = ports(each.evidence)
    if each.into:
        return f"no host gets an answer from {each.into} on {where}"
    if each.out_of:
        return f"{each.out_of} gets no answer from any host on {where}"
    one, other = each.links[0]
    return (
        f"{one} and {other} get no answer from each other on {where}"
        if len(each.links) > 1
        else f"{one} gets no answer from {other} on {where}"
    )
