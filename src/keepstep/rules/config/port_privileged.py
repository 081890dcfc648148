# SPDX-License-Identifier: Apache-2.0
"""CFG115: the job needs a port on which this user may not listen."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, PortPrivileged, rule


@rule(id="CFG115", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(PortPrivileged,))
def port_privileged(seen: EvidenceSet) -> Findings:
    """The job has to listen on a port that this user is not allowed to open.

    ## What it looks like
    `Permission denied` or `Could not start gRPC server` at the start of the rank that listens.

    ## Why it happens
    Ports below 1024 are reserved for root, unless the host's `net.ipv4.ip_unprivileged_port_start` says otherwise, as
    it does in many containers. SELinux can refuse other ports as well.

    ## How we know
    The check tried to open the port, and the kernel refused.

    ## What to do
    Use a port above 1024, or one that the host allows.

    ## When this is wrong
    The job runs as a different user than this check.
    """
    for group in seen.groups(PortPrivileged, by=lambda fact: fact.port):
        port = group[0].fact.port
        yield Found(
            title=f"this user may not listen on port {port}, which {group[0].fact.variable} gives",
            because="the check tried to open the port, and the kernel refused",
            evidence=group,
            fixes=(
                Fix(
                    do=f"use a port above 1024 in {group[0].fact.variable}",
                    command="export MASTER_PORT=29517" if group[0].fact.variable == "MASTER_PORT" else None,
                ),
            ),
        )
