# SPDX-License-Identifier: Apache-2.0
"""NET010: in a live job that stands still, a connection gets no answer."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.network import ConnectionStuck
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule


@rule(
    id="NET010",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(ConnectionStuck,),
    confidence=Confidence.SUPPORTED,
    explains=(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
    ),
)
def no_answer(seen: EvidenceSet) -> Iterator[Found]:
    """In a live job that stands still, packets to another host are sent again and again without an answer.

    ## What it looks like
    The job prints nothing more and every rank waits for the others. `ss -ti` shows connections in
    `SYN-SENT`, or established ones with bytes not acknowledged and a growing number of retransmits.

    ## Why it happens
    A firewall or security group drops the packets, a route or cable is gone, the address is of a link that
    the hosts do not share, the other host is down, or large packets are lost on the way (a wrong MTU).

    ## How we know
    The kernel's own table of the process's sockets: it repeats packets only while the other host's kernel does
    not acknowledge them. A peer that is merely busy, stopped or stuck acknowledges.

    ## What to do
    Try the very address and port from that host; if small packets pass and large ones do not, look at the MTU.

    ## When this is wrong
    A very lossy link may show it for a moment and recover.
    """
    stuck = seen.all(ConnectionStuck)
    if not stuck:
        return
    most = max(stuck, key=lambda e: e.fact.tries)
    host, _, port = most.fact.peer.rpartition(":")
    title = (
        f"{most.fact.peer} did not answer: {most.fact.tries + 1} attempts to connect"
        if most.fact.connecting
        else f"packets to {most.fact.peer} got lost: sent {most.fact.tries} times again, never acknowledged"
    )
    yield Found(
        title=title,
        because="the kernel of the other host does not answer, which a process that is only slow or stuck cannot cause",
        evidence=tuple(stuck),
        ranks=(),
        fixes=(
            Fix(do="try the connection from that host", command=f"nc -vz {host.strip('[]')} {port}"),
            Fix(do="see whether large packets pass as small ones do", command=f"ping -M do -s 1400 {host.strip('[]')}"),
            Fix(do="look at the firewalls, security groups and routes between the hosts", command="iptables -nvL"),
        ),
    )
