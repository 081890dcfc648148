# SPDX-License-Identifier: Apache-2.0
"""CFG104: an address cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import Fault, VariableFaulty
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.rules.config._exports import by_fault, faults, found


@rule(id="CFG104", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(VariableFaulty,))
def address_malformed(seen: EvidenceSet) -> Iterator[Found]:
    """An address of the cluster cannot be used as it is written.

    ## What it looks like
    An address has no port, a port above 65535, `http://` in front, or characters that no host name has; an IPv6
    address stands without brackets. TensorFlow says `Could not parse port`, gRPC `DNS resolution failed`, torch
    waits.

    ## Why it happens
    The address was copied from a browser or an inventory, or built from a variable that was empty.

    ## How we know
    Each address is taken apart as gRPC and torch do it.

    ## What to do
    Write HOST:PORT; IPv6 as [ADDRESS]:PORT. The port can be any free one, the same for all is usual.

    ## When this is wrong
    A name service of your own that gives names a meaning beyond DNS.
    """
    kinds = (Fault.ADDRESS_WITHOUT_PORT, Fault.PORT_OUT_OF_RANGE, Fault.SCHEME_IN_ADDRESS, Fault.ADDRESS_MALFORMED)
    for group in by_fault(faults(seen, *kinds)):
        yield found(
            group,
            f"the frameworks want {group[0].fact.wanted} and cannot connect to this",
            Fix(do=f"write it as {group[0].fact.wanted}"),
        )
