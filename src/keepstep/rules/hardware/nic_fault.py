# SPDX-License-Identifier: Apache-2.0
"""HWD003: a network card lost its link."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTimeout, Fact, NicFault, RanksMissing, RdmaTrouble
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, ended_badly, once_a_line

_FALLOUT: tuple[type[Fact], ...] = (RdmaTrouble, CollectiveTimeout, RanksMissing)


@rule(
    id="HWD003",
    cause=Cause.HARDWARE_NIC_FAULT,
    needs=(NicFault,),
    explains=(*OF_A_DEAD_RANK, Cause.NETWORK_RDMA_IB, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def nic_fault(seen: EvidenceSet) -> Findings:
    """A network card lost its link or reported an error of its own during the run.

    ## What it looks like
    `mlx5_core ... Link down`, `NETDEV WATCHDOG: ... transmit queue timed out`, `IBV_EVENT_PORT_ERR`, together with
    timeouts and broken connections of the ranks on that host.

    ## Why it happens
    A fault of the cable, transceiver, switch port, firmware or driver.

    ## How we know
    The kernel's driver or the verbs library reported it.

    ## What to do
    Check the port's counters and cable. Take the node out of service until it is repaired.

    ## When this is wrong
    Links also go down when a host starts or an administrator changes something: compare the times. A report without
    consequences does not count.
    """
    faults = once_a_line(seen.all(NicFault))
    if not faults or not (ended_badly(seen) or any(seen.all(kind) for kind in _FALLOUT)):
        return
    device = next((e.fact.device for e in faults if e.fact.device), None)
    yield Found(
        title=f"network card {device or 'of a host'} failed: {faults[0].fact.what}",
        because=f"the card's driver reported: {faults[0].fact.what}",
        evidence=faults,
        fixes=(
            Fix(do="check the port's state and counters", command=f"ethtool -S {device or 'eth0'}; ibstat"),
            Fix(do="check what the kernel logged about it", command="dmesg -T | grep -iE 'link|mlx|eth|ib'"),
            Fix(
                do="take the node out of service until cable, transceiver and port are checked",
                safety=Safety.NEEDS_OWNER,
            ),
        ),
    )
