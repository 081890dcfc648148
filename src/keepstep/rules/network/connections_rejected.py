# SPDX-License-Identifier: Apache-2.0
"""NET105: connections between two hosts of the job are rejected on the way."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Found, LinkProbed, Reached, rule
from keepstep.rules.network._links import Blockage, blockages, opened, ports, shown


@rule(id="NET105", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def connections_rejected(seen: EvidenceSet) -> Findings:
    """Connections between hosts of the job are rejected, though the other side is listening.

    ## What it looks like
    An immediate `Connection refused` or `No route to host`, from a job whose processes are all running.

    ## Why it happens
    A firewall answers with a reset or an ICMP message (`REJECT` in iptables, the default in firewalld), or there is no
    route.

    ## How we know
    The check's process on the target host was listening on that port, and the connection was still refused.

    ## What to do
    Add the printed rule on the host that the finding names.

    ## When this is wrong
    `Network is unreachable` may also mean that the connecting host has no route: check with `ip route get`.
    """
    found = [each for each in blockages(seen) if not each.dropped and (not each.one_way or each.into or each.out_of)]
    for each, more in shown(found):
        yield Found(
            title=_title(each) + more,
            because=_because(each),
            evidence=each.evidence,
            ranks=each.ranks,
            fixes=opened(seen, each),
        )


def _because(each: Blockage) -> str:
    how = each.evidence[0].fact
    if how.reached is Reached.RESET:
        return "the connection opened and was cut before any data passed: a firewall or proxy on the way does that"
    word = "answered with a reset" if how.reached is Reached.REFUSED else f"answered {how.said!r}"
    return f"the check listens there, yet something {word}: a firewall that rejects connections"


def _title(each: Blockage) -> str:
    where = ports(each.evidence)
    if each.into:
        return f"every connection to {each.into} on {where} is rejected"
    if each.out_of:
        return f"every connection that {each.out_of} opens on {where} is rejected"
    one, other = each.links[0]
    return (
        f"connections between {one} and {other} on {where} are rejected"
        if len(each.links) > 1
        else f"connections from {one} to {other} on {where} are rejected"
    )
