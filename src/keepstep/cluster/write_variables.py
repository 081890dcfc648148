# SPDX-License-Identifier: Apache-2.0
"""Write the variables that each framework expects, for each rank, from what a launcher says or a list of hosts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keepstep.base.launchers import TF_CONFIG
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.cluster.jax import write_jax
from keepstep.cluster.tf_config import write_tf_config
from keepstep.cluster.torchrun import write_torchrun

FIRST_PORT = 2222


def cluster_of(
    hosts: list[str], *, per_host: int = 1, chief: bool = False, ps: int = 0, port: int = FIRST_PORT
) -> Cluster:
    """A cluster over ``hosts``, ``per_host`` tasks on each.

    The first task is the chief and the last ``ps`` are parameter servers, if asked for.
    """
    tasks: list[Task] = []
    total = len(hosts) * per_host
    counts: dict[str, int] = {}
    for rank in range(total):
        role = "chief" if chief and rank == 0 else "ps" if rank >= total - ps else "worker"
        local = rank % per_host
        tasks.append(
            Task(
                rank=rank,
                role=role,
                index=counts.get(role, 0),
                host=hosts[rank // per_host],
                port=port + local,
                local=local,
            )
        )
        counts[role] = counts.get(role, 0) + 1
    return Cluster(said_by="a list of hosts", tasks=tuple(tasks))


def with_ports(cluster: Cluster, port: int = FIRST_PORT) -> Cluster:
    """The same tasks, each with a port; two on one host get different ones."""
    on_host: dict[str | None, int] = {}
    tasks = []
    for task in cluster.tasks:
        local = on_host.get(task.host, 0)
        on_host[task.host] = local + 1
        tasks.append(
            Task(
                rank=task.rank,
                role=task.role,
                index=task.index,
                host=task.host,
                port=task.port or port + local,
                local=local,
            )
        )
    return Cluster(said_by=cluster.said_by, tasks=tuple(tasks), me=cluster.me, meeting=cluster.meeting, job=cluster.job)


def exports(cluster: Cluster, rank: int) -> Iterator[str]:
    """Lines for the shell that set the variables of one rank, for TensorFlow, torch and JAX."""
    variables = {
        TF_CONFIG.name: write_tf_config(cluster, rank),
        **write_torchrun(cluster, rank),
        **write_jax(cluster, rank),
    }
    for name, value in variables.items():
        yield f"export {name}={shlex.quote(value)}"
