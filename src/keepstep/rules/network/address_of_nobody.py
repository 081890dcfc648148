# SPDX-License-Identifier: Apache-2.0
"""NET111: the job gives a process an address that its host does not have."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, LinkProbed, rule
from keepstep.rules.network._links import literal, misled


@rule(id="NET111", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(LinkProbed,))
def address_of_nobody(seen: EvidenceSet) -> Findings:
    """The job lists a host under an address that the host does not have, and that does not lead to it.

    ## What it looks like
    The other ranks wait for that rank, or get `No route to host`, while it runs and waits for them.

    ## Why it happens
    The address in TF_CONFIG or MASTER_ADDR is mistyped or outdated, or belongs to a network that the other hosts are
    not on.

    ## How we know
    The process on that host listed its addresses. The one that the job uses is not among them, and connecting to it
    did not reach that process.

    ## What to do
    Put the host's real address into the job's configuration.

    ## When this is wrong
    An address can be translated on the way (NAT, a load balancer), but then the connection would have arrived.
    """
    for found in seen.groups(LinkProbed, by=lambda fact: (fact.target, fact.name)):
        wrong = tuple(e for e in found if misled(e.fact) and literal(e.fact.name))
        if not wrong:
            continue
        fact = wrong[0].fact
        owner = (
            f"where something other than {fact.target} answers" if fact.owned else f"which {fact.target} does not have"
        )
        yield Found(
            title=f"the job looks for {fact.target} at {fact.name}, {owner}",
            because=f"a connection to that address ended with: {fact.said or fact.reached.value}",
            evidence=wrong,
            ranks=tuple(sorted({e.fact.target_rank for e in wrong if e.fact.target_rank is not None})),
            fixes=(
                Fix(do=f"list the addresses of {fact.target}, on that host", command="ip -brief address"),
                Fix(
                    do="put one that the other hosts can reach into TF_CONFIG, MASTER_ADDR or the launcher's host list"
                ),
            ),
        )
