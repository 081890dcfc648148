# SPDX-License-Identifier: Apache-2.0
"""NET108: full-size packets get lost between two hosts, small ones pass."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, LinkProbed, Safety, count, listing, rule
from keepstep.rules.network._links import ranks_at


@rule(id="NET108", cause=Cause.NETWORK_MTU, needs=(LinkProbed,))
def full_packets_lost(seen: EvidenceSet) -> Findings:
    """Small packets pass between two hosts and full-size ones get lost: an MTU black hole.

    ## What it looks like
    The processes meet and exchange small messages. The first large collective or gRPC message hangs forever.

    ## Why it happens
    Something on the path (a tunnel, an overlay, a VPN, a switch) carries only smaller packets than the hosts assume,
    and the ICMP messages that would inform them are filtered.

    ## How we know
    On a connection that had just exchanged small messages, one full-size packet was never acknowledged, although it was
    sent several times. Smaller packets on new connections were acknowledged.

    ## What to do
    Set the MTU of the interfaces to the size that passes, or let ICMP "fragmentation needed" through.

    ## When this is wrong
    Heavy packet loss can hit the large packets by chance. Then some of the smaller ones get lost too.
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
        title=f"packets of {full} bytes get lost {where}; {f'{passed} bytes' if passed else 'small messages'} pass",
        because="the path carries only smaller packets than the hosts assume, and nothing informs them",
        evidence=tuple(lost),
        ranks=ranks_at(lost),
        fixes=(
            Fix(
                do="set the interface to the size that passes, on the hosts in the title",
                command=f"ip link set dev eth0 mtu {size}",
                safety=Safety.NEEDS_OWNER,
            ),
            Fix(
                do='or let ICMP "fragmentation needed" (type 3, code 4) through, so the hosts learn the size',
                command="iptables -I INPUT -p icmp --icmp-type fragmentation-needed -j ACCEPT",
                safety=Safety.NEEDS_OWNER,
            ),
            Fix(
                do="test which size passes",
                command=f"ping -M do -c 2 -s {size - 28} {lost[0].fact.address or lost[0].fact.target}",
            ),
        ),
    )
