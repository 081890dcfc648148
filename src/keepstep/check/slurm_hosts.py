# SPDX-License-Identifier: Apache-2.0
"""Put addresses in the place of Slurm's node names where no resolver knows the names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keepstep.cluster.model import Cluster
from keepstep.cluster.slurm import read_slurm
from keepstep.sources import host


def reachable(cluster: Cluster, env: Mapping[str, str]) -> Cluster:
    """The same cluster; nodes of Slurm whose names do not resolve get the address that Slurm uses, or none."""
    slurm = read_slurm(env).cluster
    named = [name for name in cluster.hosts if slurm and name in slurm.hosts]
    unknown = [name for name, (addresses, _) in host.resolve(named).items() if not addresses]
    if not unknown:
        return cluster
    from keepstep.sources.slurm_nodes import addresses_of

    addresses = addresses_of(unknown)
    tasks = tuple(
        replace(task, host=addresses.get(task.host)) if task.host in unknown else task for task in cluster.tasks
    )
    return replace(cluster, tasks=tasks)
