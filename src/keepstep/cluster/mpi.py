# SPDX-License-Identifier: Apache-2.0
"""MPI: Open MPI, MPICH and Intel MPI (PMI), MVAPICH2, and Horovod's own variables."""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.cluster.model import Cluster
from keepstep.cluster.said import Said, Variables, evenly

DIALECTS = (
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("Horovod", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK"),
    ("MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


def read_mpi(env: Mapping[str, str]) -> Said:
    """Rank and size of the first dialect that speaks; MPI processes know no addresses of each other."""
    for name, rank_variable, size_variable, local_variable in DIALECTS:
        if rank_variable in env or size_variable in env:
            read = Variables(env)
            size = read.number(size_variable, low=1, needed=True)
            rank = read.number(rank_variable, high=size - 1 if size else 200_000, needed=True)
            local = read.number(local_variable)
            if size is None:
                return Said(faults=read.faults)
            job = env.get("OMPI_MCA_ess_base_jobid") or env.get("PMIX_NAMESPACE") or env.get("PMI_JOBID")
            cluster = Cluster(said_by=name, tasks=evenly(size, me=rank, local=local), me=rank, job=job)
            return Said(cluster, read.faults)
    return Said()
