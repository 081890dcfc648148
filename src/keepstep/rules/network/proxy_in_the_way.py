# SPDX-License-Identifier: Apache-2.0
"""NET182: gRPC would send the cluster's connections to a proxy."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, ProxySet, Severity, listing, rule


@rule(id="NET182", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(ProxySet,))
def proxy_in_the_way(seen: EvidenceSet) -> Findings:
    """gRPC would send connections between hosts of the cluster to a proxy.

    ## What it looks like
    `http_proxy` or `https_proxy` is set, and `no_proxy` does not exempt the hosts of the cluster. Connections between
    tasks go to the proxy, which refuses them or never answers. No message says so.

    ## Why it happens
    A shell profile sets the proxy for downloads, and gRPC uses it for every connection.

    ## How we know
    The variables are read as gRPC reads them, and each host of the cluster is compared with the exemptions.

    ## What to do
    Exempt the hosts of the cluster.

    ## When this is wrong
    The proxy lets connections between hosts of the cluster through.
    """
    for group in seen.groups(ProxySet, by=lambda fact: (fact.variable, fact.through)):
        fact = group[0].fact
        yield Found(
            title=f"{fact.variable} is set, and {listing(list(fact.through[:3]))} is not exempt from it",
            because="gRPC sends the connections between tasks to the proxy",
            evidence=group,
            confidence=Confidence.SUPPORTED,
            severity=Severity.WARNING,
            fixes=(Fix(do="exempt the hosts of the cluster", command=f"export no_proxy={','.join(fact.through)}"),),
        )
