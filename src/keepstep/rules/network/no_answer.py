# SPDX-License-Identifier: Apache-2.0
"""NET010: in a live job that hangs, a connection gets no answer."""

from __future__ import annotations

from keepstep.model.facts import ConnectionStuck
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule


@rule(
    id="NET010",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(ConnectionStuck,),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.SYNC_COLLECTIVE_MISMATCH),
)
def no_answer(seen: EvidenceSet) -> Findings:
    """In a live job that hangs, packets to another host are retransmitted over and over without an answer.

    ## What it looks like
    The job prints nothing more, and every rank waits for the others. `ss -ti` shows connections in `SYN-SENT`, or
    established ones with unacknowledged bytes and a growing number of retransmits.

    ## Why it happens
    A firewall or security group drops the packets, a route or cable has failed, the address belongs to a network that
    the hosts do not share, the other host is down, or large packets are lost on the way (a wrong MTU).

    ## How we know
    From the kernel's table of the process's sockets. The kernel repeats packets only while the other host's kernel
    does not acknowledge them. The host of a peer that is merely busy, stopped or stuck does acknowledge.

    ## What to do
    Try that address and port from the same host. If small packets pass and large ones do not, check the MTU.

    ## When this is wrong
    A very lossy link may look like this for a moment and recover.
    """
    stuck = seen.all(ConnectionStuck)
    if not stuck:
        return
    most = max(stuck, key=lambda e: e.fact.tries)
    host, _, port = most.fact.peer.rpartition(":")
    title = (
        f"{most.fact.peer} did not answer: {most.fact.tries + 1} attempts to connect"
        if most.fact.connecting
        else f"packets to {most.fact.peer} got lost: retransmitted {most.fact.tries} times, never acknowledged"
    )
    yield Found(
        title=title,
        because="the other host's kernel does not answer; a process that is only slow or stuck cannot cause that",
        evidence=tuple(stuck),
        ranks=(),
        fixes=(
            Fix(do="try the connection from that host", command=f"nc -vz {host.strip('[]')} {port}"),
            Fix(
                do="check whether large packets pass as well as small ones",
                command=f"ping -M do -s 1400 {host.strip('[]')}",
            ),
            Fix(do="look at the firewalls, security groups and routes between the hosts", command="iptables -nvL"),
        ),
    )
