# SPDX-License-Identifier: Apache-2.0
"""CFG115: the job needs a port that only root may listen on."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import PortPrivileged
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule


@rule(id="CFG115", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(PortPrivileged,))
def port_privileged(seen: EvidenceSet) -> Iterator[Found]:
    """The job has to listen on a port below 1024, which this user may not do.

    ## What it looks like
    `Permission denied` or `Could not start gRPC server` at the start of the rank that listens.

    ## Why it happens
    Ports below 1024 are reserved for root.

    ## How we know
    The check tried to open the port, and the kernel refused.

    ## What to do
    Use a port above 1024.

    ## When this is wrong
    The job runs as a different user than this check.
    """
    for group in seen.groups(PortPrivileged, by=lambda fact: fact.port):
        port = group[0].fact.port
        yield Found(
            title=f"only root may listen on port {port}, which {group[0].fact.variable} gives",
            because="the kernel reserves ports below 1024 for root, so this rank could not listen",
            evidence=group,
            fixes=(Fix(do="use a port above 1024", command="export MASTER_PORT=29517"),),
        )
