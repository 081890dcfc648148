# SPDX-License-Identifier: Apache-2.0
"""NET108: packets of full size get lost between two hosts, small ones pass."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import LinkProbed
from keepstep.core.finding import Fix, Found, Safety
from keepstep.core.rule import rule
from keepstep.core.wording import count, listing
from keepstep.rules.network._links import ranks_at


@rule(id="NET108", cause=Cause.NETWORK_MTU, needs=(LinkProbed,))
def full_packets_lost(seen: EvidenceSet) -> Iterator[Found]:
    """Small packets pass between two hosts and full ones get lost: an MTU black hole.

    ## What it looks like
    The processes meet and exchange small messages; the first large collective or gRPC message hangs for ever.

    ## Why it happens
    Something on the way (a tunnel, an overlay, a VPN, a switch) carries smaller packets than the hosts believe, and the ICMP
    messages that would tell them are filtered.

    ## How we know
    On a connection that had just exchanged small messages, one packet of the full size was not acknowledged though it was sent
    several times; smaller ones on new connections were.

    ## What to do
    Set the interfaces to the size that passes, or let ICMP "fragmentation needed" through.

    ## When this is wrong
    Heavy loss can hit the large packets by chance; then the smaller ones get lost too.
    """
    lost = [e for e in seen.all(LinkProbed) if e.fact.passed_size is not None]
    if not lost:
        return
    links = list(dict.fromkeys((e.fact.source, e.fact.target) for e in lost))
    sizes = [e.fact.passed_size for e in lost if e.fact.passed_size]
    passed = min(sizes) if sizes else 0
    full = max(e.fact.full_size or 0 for e in lost)
    every = {(e.fact.source, e.fact.target) for e in seen.all(LinkProbed) if e.fact.full_size}
    hosts = [h for h in dict.fromkeys(end for link in links for end in link) if all(h in link for link in links)]
    if len(links) == 1:
        where = f"from {links[0][0]} to {links[0][1]}"
    elif len(every) > 2 and len(links) == len(every):
        where = f"between all hosts ({count(len(links), 'link')})"
    elif len({frozenset(link) for link in links}) == 1:
        where = f"between {links[0][0]} and {links[0][1]}"
    elif len(hosts) == 1:
        into, out = any(hosts[0] == b for _, b in links), any(hosts[0] == a for a, _ in links)
        where = (
            f"{'to and from' if into and out else 'to' if into else 'from'} {hosts[0]} ({count(len(links), 'link')})"
        )
    else:
        where = (
            "on "
            + listing(f"{a} -> {b}" for a, b in links[:4])
            + (f" and {len(links) - 4} more" if len(links) > 4 else "")
        )
    size = passed or 1280
    yield Found(
        title=f"packets of {full} bytes get lost {where}; {f'{passed} bytes pass' if passed else 'small messages pass'}",
        because="the way between them carries smaller packets than the hosts believe, and nothing tells them so",
        evidence=tuple(lost),
        ranks=ranks_at(lost),
        fixes=(
            Fix(
                do="set the interface to the size that passes, on the hosts named",
                command=f"ip link set dev eth0 mtu {size}",
                safety=Safety.NEEDS_OWNER,
            ),
            Fix(
                do='or let ICMP "fragmentation needed" (type 3, code 4) through on the way, so that the hosts learn it',
                command="iptables -I INPUT -p icmp --icmp-type fragmentation-needed -j ACCEPT",
                safety=Safety.NEEDS_OWNER,
            ),
            Fix(
                do="see which size passes",
                command=f"ping -M do -c 2 -s {size - 28} {lost[0].fact.address or lost[0].fact.target}",
            ),
        ),
    )
