# SPDX-License-Identifier: Apache-2.0
"""NET008: full-size packets did not get through."""

from __future__ import annotations

from keepstep.model.facts import LinkMtu, MtuTrouble
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, rule


@rule(
    id="NET008",
    cause=Cause.NETWORK_MTU,
    needs=(MtuTrouble, LinkMtu),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def mtu(seen: EvidenceSet) -> Findings:
    """Full-size packets did not get through between hosts.

    ## What it looks like
    `Message too long`, `Frag needed and DF set`. Small messages pass (the rendezvous works), and the first large
    collective hangs.

    ## Why it happens
    The interfaces of two hosts, or an overlay or tunnel between them, have different MTUs, and the ICMP messages
    that would say so are filtered.

    ## How we know
    The kernel refused a packet because of its size, or the log shows the same interface with two MTUs.

    ## What to do
    Find the size that passes, and set it on every interface of the path.

    ## When this is wrong
    A program that sends oversized datagrams itself gets the same error.
    """
    found = [e for e in seen.all(MtuTrouble) if not seen.survived(e)]
    if found:
        yield Found(
            title="full-size packets did not get through between the hosts",
            because="the kernel refused a packet that is larger than the path allows",
            evidence=tuple(found),
            fixes=_FIXES,
        )
    for links in seen.groups(LinkMtu, by=lambda fact: fact.link):
        sizes = sorted({e.fact.size for e in links})
        if len(sizes) > 1 and not found and not any(seen.survived(e) for e in links):
            yield Found(
                title=f"the hosts disagree on the MTU of {links[0].fact.link}: {sizes[0]} against {sizes[-1]}",
                because="the same interface has a different MTU on another host, and no step followed",
                evidence=links[:8],
                confidence=Confidence.HYPOTHESIS,
                fixes=_FIXES,
            )


_FIXES = (
    Fix(do="find the size that passes", command="ping -M do -s 8972 OTHER_HOST; ping -M do -s 1472 OTHER_HOST"),
    Fix(do="set the same size on every host", command="ip link set dev eth0 mtu 1500", safety=Safety.NEEDS_OWNER),
)
