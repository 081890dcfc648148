# SPDX-License-Identifier: Apache-2.0
"""NET111: the job gives a process an address that its host does not have."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import LinkProbed
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.rules.network._links import literal, misled


@rule(id="NET111", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def address_of_nobody(seen: EvidenceSet) -> Iterator[Found]:
    """The job calls a host by an address that this host does not have, and that does not lead to it.

    ## What it looks like
    The others wait for that rank, or get `No route to host`, while it runs and waits for them.

    ## Why it happens
    A mistyped or old address in TF_CONFIG or MASTER_ADDR, or one of an interface that the others do not share.

    ## How we know
    The process on that host listed its addresses, the job's is not among them, and a call to it did not lead there.

    ## What to do
    Write the address that the host has.

    ## When this is wrong
    Where an address is translated on the way (NAT, a load balancer), but then the call would have led there.
    """
    for found in seen.groups(LinkProbed, by=lambda fact: (fact.target, fact.name)):
        wrong = tuple(e for e in found if misled(e.fact) and literal(e.fact.name))
        if not wrong:
            continue
        fact = wrong[0].fact
        owner = f"which {fact.target} has not" if not fact.owned else f"where somebody else than {fact.target} answers"
        yield Found(
            title=f"the job looks for {fact.target} at {fact.name}, {owner}",
            because=f"a call to that address ended with: {fact.said or fact.reached.value}",
            evidence=wrong,
            ranks=tuple(sorted({e.fact.target_rank for e in wrong if e.fact.target_rank is not None})),
            fixes=(
                Fix(do=f"see the addresses of {fact.target} there", command="ip -brief address"),
                Fix(
                    do="write the one that the others can reach into TF_CONFIG, MASTER_ADDR or the launcher's list of hosts"
                ),
            ),
        )
