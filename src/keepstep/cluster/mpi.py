# SPDX-License-Identifier: Apache-2.0
"""MPI: Open MPI, MPICH and Intel MPI (PMI), MVAPICH2, and Horovod's own variables."""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.base.launchers import HOROVOD, MVAPICH, OPEN_MPI, PMI, PMIX, first_set
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.launcher_answer import ClusterSaid, Variables, evenly

DIALECTS = (OPEN_MPI, HOROVOD, MVAPICH, PMI)
_JOBS = OPEN_MPI.job + PMIX.job + PMI.job


def read(env: Mapping[str, str]) -> ClusterSaid:
    """Rank and size by the first dialect that is set; MPI processes do not know each other's addresses."""
    for dialect in DIALECTS:
        if dialect.rank[0] in env or dialect.size[0] in env:
            read = Variables(env)
            size, rank, local = read.place(dialect, needed=("size", "rank"))
            if size is None:
                return ClusterSaid(faults=read.faults)
            job = env.get(first_set(env, _JOBS) or "")
            cluster = Cluster(said_by=dialect.name, tasks=evenly(size, me=rank, local=local), me=rank, job=job)
            return ClusterSaid(cluster, read.faults)
    return ClusterSaid()
