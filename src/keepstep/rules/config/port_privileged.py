# SPDX-License-Identifier: Apache-2.0
"""CFG115: the job wants a port that only root may listen on."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import PortPrivileged
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule


@rule(id="CFG115", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(PortPrivileged,))
def port_privileged(seen: EvidenceSet) -> Iterator[Found]:
    """The job wants to listen on a port below 1024, which this user may not.

    ## What it looks like
    `Permission denied` or `Could not start gRPC server` at the start of the rank that listens.

    ## Why it happens
    Ports below 1024 are root's.

    ## How we know
    The port was tried, and the kernel refused.

    ## What to do
    Take a port above 1024.

    ## When this is wrong
    The job runs as another user than this check.
    """
    for group in seen.groups(PortPrivileged, by=lambda fact: fact.port):
        port = group[0].fact.port
        yield Found(
            title=f"port {port} of {group[0].fact.variable} may be listened on by root only",
            because="the kernel keeps ports below 1024 for root, so this rank could not listen",
            evidence=group,
            fixes=(Fix(do="take a port above 1024", command="export MASTER_PORT=29517"),),
        )
