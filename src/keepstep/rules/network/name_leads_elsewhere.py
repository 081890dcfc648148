# SPDX-License-Identifier: Apache-2.0
"""NET110: a host name of the job leads to an address that its host does not have."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import LinkProbed
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import listing
from keepstep.rules.network._links import literal, misled


@rule(id="NET110", cause=Cause.NETWORK_DNS, needs=(LinkProbed,))
def name_leads_elsewhere(seen: EvidenceSet) -> Iterator[Found]:
    """A host name resolves to an address that the host does not have, and that does not lead to it.

    ## What it looks like
    `Connection refused`, `No route to host` or a hang on the hosts whose resolver knows an old or foreign address; the others work.

    ## Why it happens
    A stale entry in DNS or `/etc/hosts`, an address that changed, or a name that means another network inside of a container.

    ## How we know
    The process on that host listed its addresses; the one that the name resolved to elsewhere is not among them, and calling it
    did not lead there.

    ## What to do
    Correct the entry, or give the address itself.

    ## When this is wrong
    Where an address is translated on the way (NAT, a load balancer), but then the call would have led there.
    """
    for found in seen.groups(LinkProbed, by=lambda fact: (fact.target, fact.name, fact.address)):
        wrong = tuple(e for e in found if misled(e.fact) and not literal(e.fact.name))
        if not wrong:
            continue
        fact = wrong[0].fact
        where = listing(list(dict.fromkeys(e.fact.source for e in wrong))[:4])
        owner = f"{fact.target} has not" if not fact.owned else f"somebody else than {fact.target} answers at"
        yield Found(
            title=f"{fact.name} resolves to {fact.address} on {where}, which {owner}",
            because=f"a call to that address ended with: {fact.said or fact.reached.value}",
            evidence=wrong,
            fixes=(
                Fix(do=f"see what the name resolves to on {where}", command=f"getent ahosts {fact.name}"),
                Fix(do=f"see the addresses of {fact.target} there", command="ip -brief address"),
                Fix(do="correct the entry of DNS or /etc/hosts, or give the address instead of the name"),
            ),
        )
