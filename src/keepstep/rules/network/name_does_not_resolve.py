# SPDX-License-Identifier: Apache-2.0
"""NET180: a host name of the cluster does not resolve."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, NameLookedUp, listing, rule
from keepstep.rules.asking.process_endings import host_of


@rule(id="NET180", cause=Cause.NETWORK_DNS, needs=(NameLookedUp,))
def name_does_not_resolve(seen: EvidenceSet) -> Findings:
    """A host name of the cluster does not resolve.

    ## What it looks like
    The resolver of one or all hosts does not know a name in TF_CONFIG, MASTER_ADDR or the scheduler's list.

    ## Why it happens
    The name is misspelt, one host lacks a search domain, a Kubernetes pod has no headless service (subdomain), or
    pods are not ready yet.

    ## How we know
    Each process asked its own resolver.

    ## What to do
    Correct the name, or add it to DNS or /etc/hosts. In Kubernetes, create a headless service with
    publishNotReadyAddresses whose name is the pods' subdomain.

    ## When this is wrong
    The other hosts start later, and the name starts to resolve when they do.
    """
    for group in seen.groups(NameLookedUp, by=lambda fact: fact.name):
        failed = tuple(e for e in group if not e.fact.addresses)
        if not failed:
            continue
        name = failed[0].fact.name
        where = listing(list(dict.fromkeys(host_of(e) for e in failed))[:4])
        yield Found(
            title=f"{name} does not resolve on {where}",
            because=f"the resolver there says: {failed[0].fact.error}",
            evidence=failed,
            fixes=(
                Fix(do="ask the resolver on that host", command=f"getent hosts {name}"),
                Fix(
                    do="correct the name, or add it on every host",
                    command=f"echo 'ADDRESS {name}' | sudo tee -a /etc/hosts",
                ),
            ),
        )
