# SPDX-License-Identifier: Apache-2.0
"""NET003: a host name did not resolve."""

from __future__ import annotations

from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, EvidenceSet, Findings, Fix, Found, NameUnresolved, rule


@rule(
    id="NET003",
    cause=Cause.NETWORK_DNS,
    needs=(NameUnresolved,),
    explains=(*SEEN_BY_OTHER_RANKS, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def dns(seen: EvidenceSet) -> Findings:
    """A host name that the run needs could not be resolved.

    ## What it looks like
    `Name or service not known`, `Temporary failure in name resolution`, `gai error: -2`, `no such host`,
    `getaddrinfo failed`, `UnknownHostException`.

    ## Why it happens
    The name is misspelt, or missing from that host's DNS and `/etc/hosts`; the pod or service of the main rank does
    not exist yet; or a container has no resolver.

    ## How we know
    The resolver says so itself.

    ## What to do
    Resolve the name on the host that failed. Use an address, or add the name to DNS or `/etc/hosts`.

    ## When this is wrong
    A temporary failure may pass while the run retries. Then training continues after the message.
    """
    found = [e for e in seen.all(NameUnresolved) if not seen.survived(e)]
    if not found:
        return
    host = next((e.fact.host for e in found if e.fact.host), None)
    name = f"the host name {host}" if host else "a host name"
    yield Found(
        title=f"{name} could not be resolved",
        because="the resolver of that host does not know the name",
        evidence=tuple(found),
        fixes=(
            Fix(do="resolve it on the host that failed", command=f"getent hosts {host or '$MASTER_ADDR'}"),
            Fix(do="or use the address instead of the name", command="export MASTER_ADDR=10.0.0.1"),
        ),
    )
