# SPDX-License-Identifier: Apache-2.0
"""RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT: torchrun, Kubeflow and all that imitate them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keepstep.base.launchers import OPEN_MPI, PMI, PMIX, SLURM, TORCHRUN
from keepstep.cluster.address import joined
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.launcher_answer import ClusterSaid, Variables, evenly

(RANK,), (SIZE,), (LOCAL_RANK,), (LOCAL_SIZE,) = TORCHRUN.rank, TORCHRUN.size, TORCHRUN.local_rank, TORCHRUN.local_size
HOST, PORT = TORCHRUN.meeting
NEEDED = (RANK, SIZE, HOST, PORT)
ELSEWHERE = SLURM.rank + OPEN_MPI.rank + PMI.rank + PMIX.rank
"""Scripts under these launchers take rank and size from them and set only where to meet."""


def read(env: Mapping[str, str]) -> ClusterSaid:
    """Torch's variables. Having only some of them is a fault, unless another launcher says who the process is."""
    present = [name for name in NEEDED if env.get(name, "").strip()]
    if not present or ((present == [RANK] or present == [SIZE]) and LOCAL_RANK not in env):
        return ClusterSaid()
    others_say_who = any(name in env for name in ELSEWHERE) and not ({RANK, SIZE} & set(present))
    read = Variables(env)
    size, rank, local = read.place(TORCHRUN, needed=() if others_say_who else ("size", "rank"))
    host = read.host(HOST, needed=True)
    port = read.number(PORT, low=1, high=65535, needed=True)
    if not size:
        return ClusterSaid(faults=read.faults)
    tasks = evenly(size, me=rank, local=local)
    if host:
        tasks = (replace(tasks[0], host=host, port=port), *tasks[1:])
    meeting = joined(host, port)
    job = env.get(TORCHRUN.job[0]) or None
    return ClusterSaid(Cluster(said_by=TORCHRUN.name, tasks=tasks, me=rank, meeting=meeting, job=job), read.faults)


def write_torchrun(cluster: Cluster, rank: int, port: int = 29500) -> dict[str, str]:
    """Torch's variables of one rank."""
    first, own = cluster.tasks[0], next(task for task in cluster.tasks if task.rank == rank)
    here = [task.rank for task in cluster.tasks if task.host == own.host]
    return {
        RANK: str(rank),
        SIZE: str(cluster.size),
        LOCAL_RANK: str(own.local if own.local is not None else here.index(rank)),
        LOCAL_SIZE: str(len(here)),
        HOST: first.host or "127.0.0.1",
        PORT: str(first.port or port),
    }
