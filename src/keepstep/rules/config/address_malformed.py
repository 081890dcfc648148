# SPDX-License-Identifier: Apache-2.0
"""CFG104: an address cannot be used."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Fault, Findings, Fix, VariableFaulty, rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG104", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(VariableFaulty,))
def address_malformed(seen: EvidenceSet) -> Findings:
    """An address of the cluster cannot be used as it is written.

    ## What it looks like
    An address has no port, a port above 65535, `http://` in front, or characters that no host name has, or an IPv6
    address has no brackets. TensorFlow prints `Could not parse port`, gRPC prints `DNS resolution failed`, and torch
    waits.

    ## Why it happens
    The address was copied from a browser or an inventory, or built from a variable that was empty.

    ## How we know
    Each address is parsed the way gRPC and torch do it.

    ## What to do
    Write HOST:PORT, or [ADDRESS]:PORT for IPv6. The port can be any free one; usually all hosts use the same.

    ## When this is wrong
    You have your own name service, which resolves names that DNS does not allow.
    """
    kinds = (Fault.ADDRESS_WITHOUT_PORT, Fault.PORT_OUT_OF_RANGE, Fault.SCHEME_IN_ADDRESS, Fault.ADDRESS_MALFORMED)
    for group in by_fault(faults(seen, *kinds)):
        yield found(
            group,
            f"the frameworks expect {group[0].fact.wanted} and cannot connect to this address",
            Fix(do=f"write the address as {group[0].fact.wanted}"),
        )
