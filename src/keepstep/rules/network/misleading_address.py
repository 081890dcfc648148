# SPDX-License-Identifier: Apache-2.0
"""NET051: a process advertised addresses that its peers cannot use."""

from __future__ import annotations

from keepstep.model.facts import AddressMisled
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule


@rule(
    id="NET051",
    cause=Cause.NETWORK_WRONG_INTERFACE,
    needs=(AddressMisled,),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.USER_CODE_EXCEPTION),
)
def misleading_address(seen: EvidenceSet) -> Findings:
    """A process advertised addresses that lead its peers nowhere, or to another process.

    ## What it looks like
    Open MPI's `connect() to 192.168.118.0 failed: No route to host (113)` and `received unexpected process
    identifier`; Horovod's `unable to connect to horovod task service #1 on any of the following addresses`.

    ## Why it happens
    Hosts have several interfaces (container bridges, virtual machines, separate networks), and the library
    advertises all of them. Bridges often have the same address on every host.

    ## How we know
    The launcher had already reached both hosts. The address that failed is one that the peer itself advertised.

    ## What to do
    Name the interface that leads to the other hosts, for the launcher and for the library.

    ## When this is wrong
    A firewall that lets ssh through and closes all other ports causes the same messages.
    """
    found = tuple(e for e in seen.all(AddressMisled) if not seen.survived(e))
    if not found:
        return
    address = next((e.fact.address for e in found if e.fact.address), None)
    how = next((e.fact.how for e in found if e.fact.how), "it did not answer")
    yield Found(
        title=f"a peer advertised {address or 'an address'}, and {how}",
        because="the hosts had been reached before, but not through the interface that was advertised",
        evidence=found[:6],
        fixes=(
            Fix(do="find the interface that leads to the other hosts", command="ip -br addr; ip route get OTHER_HOST"),
            Fix(
                do="use only that one, or exclude the bridges",
                command="mpirun -mca btl_tcp_if_exclude lo,docker0 -mca oob_tcp_if_exclude lo,docker0 COMMAND",
            ),
            Fix(
                do="with Horovod's own launcher, name the interface",
                command="horovodrun --network-interfaces eth0 COMMAND",
            ),
        ),
    )
