# SPDX-License-Identifier: Apache-2.0
"""NET110: a host name of the job resolves to an address that its host does not have."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, LinkProbed, listing, rule
from keepstep.rules.network._links import literal, misled


@rule(id="NET110", cause=Cause.NETWORK_DNS, needs=(LinkProbed,))
def name_leads_elsewhere(seen: EvidenceSet) -> Findings:
    """A host name resolves to an address that the host does not have, and that does not lead to it.

    ## What it looks like
    `Connection refused`, `No route to host` or a hang on the hosts whose resolver has an outdated or wrong address.
    The other hosts work.

    ## Why it happens
    An entry in DNS or `/etc/hosts` is stale, an address has changed, or the name belongs to another network inside a
    container.

    ## How we know
    The process on that host listed its addresses. The one that the name resolved to elsewhere is not among them, and
    connecting to it did not reach that process.

    ## What to do
    Correct the entry, or use the address itself.

    ## When this is wrong
    An address can be translated on the way (NAT, a load balancer), but then the connection would have arrived.
    """
    for found in seen.groups(LinkProbed, by=lambda fact: (fact.target, fact.name, fact.address)):
        wrong = tuple(e for e in found if misled(e.fact) and not literal(e.fact.name))
        if not wrong:
            continue
        fact = wrong[0].fact
        where = listing(list(dict.fromkeys(e.fact.source for e in wrong))[:4])
        owner = (
            f"where something other than {fact.target} answers" if fact.owned else f"which {fact.target} does not have"
        )
        yield Found(
            title=f"{fact.name} resolves to {fact.address} on {where}, {owner}",
            because=f"a connection to that address ended with: {fact.said or fact.reached.value}",
            evidence=wrong,
            fixes=(
                Fix(do=f"check what the name resolves to on {where}", command=f"getent ahosts {fact.name}"),
                Fix(do=f"list the addresses of {fact.target}, on that host", command="ip -brief address"),
                Fix(do="correct the entry in DNS or /etc/hosts, or use the address instead of the name"),
            ),
        )
