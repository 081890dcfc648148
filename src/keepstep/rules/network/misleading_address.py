# SPDX-License-Identifier: Apache-2.0
"""NET051: a process gave out addresses that its peers cannot use."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.network import AddressMisled
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule


@rule(
    id="NET051",
    cause=Cause.NETWORK_WRONG_INTERFACE,
    needs=(AddressMisled,),
    confidence=Confidence.SUPPORTED,
    explains=(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.USER_CODE_EXCEPTION,
    ),
)
def misleading_address(seen: EvidenceSet) -> Iterator[Found]:
    """A process gave out addresses for itself that lead its peers nowhere, or to another process.

    ## What it looks like
    Open MPI's `connect() to 192.168.118.0 failed: No route to host (113)` and `received unexpected process
    identifier`; Horovod's `unable to connect to horovod task service #1 on any of the following addresses`.

    ## Why it happens
    Hosts have several interfaces (bridges of containers, virtual machines, separate networks) and the
    library offers all of them. Bridges often carry the same address on every host.

    ## How we know
    The launcher had already reached both hosts; the address that failed is one that the peer itself offered.

    ## What to do
    Name the interface that leads to the other hosts, for the launcher and for the library.

    ## When this is wrong
    A firewall that lets ssh through and closes all other ports gives the same words.
    """
    found = tuple(e for e in seen.all(AddressMisled) if not seen.survived(e))
    if not found:
        return
    address = next((e.fact.address for e in found if e.fact.address), None)
    how = next((e.fact.how for e in found if e.fact.how), "it did not answer")
    yield Found(
        title=f"a peer gave out {address or 'an address'} for itself, and {how}",
        because="the hosts had been reached before, but not by the interface that was offered",
        evidence=found[:6],
        fixes=(
            Fix(
                do="see which interface leads to the other hosts",
                command="ip -br addr; ip route get OTHER_HOST",
            ),
            Fix(
                do="use only that one, or leave out bridges",
                command="mpirun -mca btl_tcp_if_exclude lo,docker0 -mca oob_tcp_if_exclude lo,docker0 ...",
            ),
            Fix(do="with Horovod's own launcher", command="horovodrun --network-interfaces eth0 ..."),
        ),
    )
