# SPDX-License-Identifier: Apache-2.0
"""CFG009: a process tried to listen on an address that its host does not have."""

from __future__ import annotations

from keepstep.model.facts import BindFailed
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, ranks_of, rule


@rule(
    id="CFG009",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(BindFailed,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.EXCEPTION,
    explains=(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_PORT_IN_USE,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.UNKNOWN_NOT_ESTABLISHED,
    ),
)
def address_not_here(seen: EvidenceSet) -> Findings:
    """A process tried to listen on an address that its host does not have.

    ## What it looks like
    `Cannot assign requested address`, errno 99, when a server starts: TensorFlow's gRPC server, rank 0's store, Gloo.

    ## Why it happens
    The task index or rank does not match the host it was started on, the address is a public one that the cloud
    translates, or a name resolves differently inside a container.

    ## How we know
    The kernel gives this error only for addresses that none of the host's interfaces has.

    ## What to do
    Start each task on the host that the cluster lists for it, and list addresses that the hosts have.

    ## When this is wrong
    A host without IPv6 gives this error for `::1` and `[::]`, and the program goes on with IPv4.
    """
    failed = tuple(
        e
        for e in seen.all(BindFailed)
        if not seen.survived(e) and not (e.fact.address or "").startswith("[") and "[::" not in e.quote
    )
    if not failed or not (seen.broken or seen.is_last_word(failed[-1], 5)):
        return
    where = next((e.fact.address for e in failed if e.fact.address), None)
    yield Found(
        title=f"a process tried to listen on {f'{where}, which' if where else 'an address'} its host does not have",
        because="none of the host's interfaces has that address, so it belongs to another host",
        evidence=failed,
        ranks=ranks_of(failed),
        fixes=(
            Fix(do="list the addresses of this host", command="hostname -I; getent hosts $(hostname)"),
            Fix(do="start each task on the host listed for it, or list addresses that the hosts have"),
        ),
    )
