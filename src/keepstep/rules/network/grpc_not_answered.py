# SPDX-License-Identifier: Apache-2.0
"""NET115: plain connections work between two hosts, gRPC calls do not."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, GrpcExchanged, LinkProbed, Safety, count, rule
from keepstep.rules.network._links import ranks_at


@rule(id="NET115", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(GrpcExchanged,))
def grpc_not_answered(seen: EvidenceSet) -> Findings:
    """Plain connections work between two hosts, and gRPC calls do not.

    ## What it looks like
    TensorFlow's workers wait for each other forever, or print `UNAVAILABLE: failed to connect to all addresses`.

    ## Why it happens
    Something on the path does not let HTTP/2 through: a firewall that inspects connections, a service mesh, or another
    program that uses the port for its own protocol.

    ## How we know
    A real gRPC call failed between two hosts whose plain connections had just been measured.

    ## What to do
    Exempt the job's ports from whatever inspects connections (sidecars, deep packet inspection).

    ## When this is wrong
    The host was overloaded at that moment. Run the check again.
    """
    broken = {
        frozenset((e.fact.source, e.fact.target))
        for e in seen.all(LinkProbed)
        if not e.fact.usable or e.fact.passed_size is not None
    }
    failed = tuple(
        e for e in seen.all(GrpcExchanged) if e.fact.error and frozenset((e.fact.source, e.fact.target)) not in broken
    )
    if not failed:
        return
    fact = failed[0].fact
    rest = len({(e.fact.source, e.fact.target) for e in failed}) - 1
    yield Found(
        title=f"gRPC calls from {fact.source} to {fact.target} get no answer"
        + (f" (and on {count(rest, 'more link')})" if rest else ""),
        because=f"plain connections work, and gRPC says: {fact.error}",
        evidence=failed,
        ranks=ranks_at(failed),
        fixes=(
            Fix(do="trace what gRPC tries", command="GRPC_TRACE=http,tcp GRPC_VERBOSITY=debug keepstep check network"),
            Fix(
                do="in a service mesh, take the job's ports out of the mesh (here Istio)",
                command="kubectl annotate pod POD traffic.sidecar.istio.io/excludeInboundPorts=2222",
                safety=Safety.NEEDS_OWNER,
            ),
        ),
    )
