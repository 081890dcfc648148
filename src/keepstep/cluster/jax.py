# SPDX-License-Identifier: Apache-2.0
"""JAX: the coordinator's address by its own variable; count and id by the script, or by what JAX detects."""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.base.launchers import JAX, JAX_SCRIPTS, first_set
from keepstep.cluster.address import joined
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.launcher_answer import ClusterSaid, Variables, evenly


def read(env: Mapping[str, str]) -> ClusterSaid:
    """The variables that JAX and the usual scripts read."""
    where = first_set(env, JAX.meeting + JAX_SCRIPTS.meeting)
    if where is None:
        return ClusterSaid()
    read = Variables(env)
    meeting = read.address(where)
    if port := read.number("JAX_COORDINATOR_PORT", low=1, high=65535):
        meeting = f"{(meeting or '').rpartition(':')[0]}:{port}" if meeting else None
    size, rank, _ = read.place(JAX, JAX_SCRIPTS)
    if size is None:
        return ClusterSaid(faults=read.faults)
    return ClusterSaid(Cluster(said_by=JAX.name, tasks=evenly(size, me=rank), me=rank, meeting=meeting), read.faults)


def write_jax(cluster: Cluster, rank: int, port: int = 1234) -> dict[str, str]:
    """The variables of one process, for scripts that pass them to ``jax.distributed.initialize``."""
    first = cluster.tasks[0]
    address = joined(first.host or "127.0.0.1", first.port or port) or ""
    return {JAX.meeting[0]: address, JAX.size[0]: str(cluster.size), JAX.rank[0]: str(rank)}
