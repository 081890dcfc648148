# SPDX-License-Identifier: Apache-2.0
"""Replace Slurm's node names by addresses where the names do not resolve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keepstep.cluster import slurm
from keepstep.cluster.cluster_type import Cluster
from keepstep.sources.host import this_host


def reachable(cluster: Cluster, env: Mapping[str, str]) -> Cluster:
    """The same cluster; nodes of Slurm whose names do not resolve get the address that Slurm uses, or none."""
    found = slurm.read(env).cluster
    named = [name for name in cluster.hosts if found and name in found.hosts]
    unknown = [name for name, (addresses, _) in this_host.resolve(named).items() if not addresses]
    if not unknown:
        return cluster
    from keepstep.sources.schedulers.slurm_nodes import addresses_of

    addresses = addresses_of(unknown)
    tasks = tuple(
        replace(task, host=addresses.get(task.host)) if task.host in unknown else task for task in cluster.tasks
    )
    return replace(cluster, tasks=tasks)
