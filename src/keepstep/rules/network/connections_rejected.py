# SPDX-License-Identifier: Apache-2.0
"""NET105: connections between two hosts of the job are rejected on the way."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import LinkProbed, Reached
from keepstep.core.finding import Found
from keepstep.core.rule import rule
from keepstep.core.wording import count
from keepstep.rules.network._links import MOST_PAIRS, Blockage, blockages, opened, ports


@rule(id="NET105", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def connections_rejected(seen: EvidenceSet) -> Iterator[Found]:
    """Connections between hosts of the job are rejected, though somebody listens there.

    ## What it looks like
    `Connection refused` or `No route to host` at once, from a job whose processes all run.

    ## Why it happens
    A firewall answers with a reset or an ICMP message (`REJECT` of iptables, the default of firewalld), or there is no route.

    ## How we know
    The process of the check on the target host said that it listens on that port, and the connection was still refused.

    ## What to do
    Add the rule that is printed, on the host that is named.

    ## When this is wrong
    `Network is unreachable` may also mean that the calling host has no route: see `ip route get`.
    """
    found = [each for each in blockages(seen) if not each.dropped and (not each.one_way or each.into or each.out_of)]
    pairs = [each for each in found if not each.into and not each.out_of]
    for each in (*(e for e in found if e not in pairs), *pairs[:MOST_PAIRS]):
        rest = len(pairs) - MOST_PAIRS if each in pairs[MOST_PAIRS - 1 : MOST_PAIRS] else 0
        yield Found(
            title=_title(each) + (f" (and {count(rest, 'more pair')})" if rest > 0 else ""),
            because=_because(each),
            evidence=each.evidence,
            ranks=each.ranks,
            fixes=opened(seen, each),
        )


def _because(each: Blockage) -> str:
    how = each.evidence[0].fact
    if how.reached is Reached.RESET:
        return (
            "the connection stood and was cut before anything could be said: a firewall or proxy on the way does that"
        )
    word = "answered with a reset" if how.reached is Reached.REFUSED else f"said {how.said!r}"
    return f"the check listens there, and still something {word}: a firewall that rejects"


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
