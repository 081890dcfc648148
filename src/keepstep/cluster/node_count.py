# SPDX-License-Identifier: Apache-2.0
"""On how many nodes the launcher put the ranks, as far as its variables say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from keepstep.base.launchers import LAUNCHERS, SLURM, first_set
from keepstep.base.whole_numbers import whole
from keepstep.cluster import kubernetes, tpu
from keepstep.cluster.address import is_loopback
from keepstep.model.facts.cluster import NodesNamed

STEP = "SLURM_STEP_NUM_NODES"
COUNTED_RANKS = (("GROUP_WORLD_SIZE", "torchrun"), ("HOROVOD_CROSS_SIZE", "Horovod"))
"""Nodes of the ranks themselves."""
COUNTED_JOB = (
    ("PET_NNODES", "Kubeflow"),
    ("SLURM_JOB_NUM_NODES", SLURM.name),
    ("SLURM_NNODES", SLURM.name),
    ("PBS_NUM_NODES", "PBS"),
    ("SKYPILOT_NUM_NODES", "SkyPilot"),
)
"""Nodes of the whole job."""

Reader = Callable[[Mapping[str, str]], NodesNamed | None]


def nodes_named(env: Mapping[str, str]) -> NodesNamed | None:
    """What the launcher that is closest to the ranks says; None where none does."""
    return next((said for read in _READERS if (said := read(env)) is not None), None)


def _counted(rows: tuple[tuple[str, str], ...]) -> Reader:
    def read(env: Mapping[str, str]) -> NodesNamed | None:
        for name, by in rows:
            if count := whole(env.get(name, "").partition(":")[0]):  # Kubeflow also writes 2:4
                return NodesNamed(said_by=by, count=count, variable=name)
        return None

    return read


def _ranks_per_node(env: Mapping[str, str]) -> NodesNamed | None:
    for each in LAUNCHERS:
        local, size = first_set(env, each.local_size), first_set(env, each.size)
        here, all_ranks = whole(env.get(local or "", "")), whole(env.get(size or "", ""))
        if local is not None and here and all_ranks:
            return NodesNamed(said_by=each.name, count=math.ceil(all_ranks / here), variable=local)
    return None


def _step(env: Mapping[str, str]) -> NodesNamed | None:
    count = whole(env.get(STEP, "")) if "SLURM_STEP_ID" in env else None
    return NodesNamed(said_by=SLURM.name, count=count, variable=STEP) if count else None


def _pods(env: Mapping[str, str]) -> NodesNamed | None:
    """Pods share no loopback, whatever node they are on."""
    found, index = kubernetes.read(env).cluster, kubernetes.node_of(env)
    count = found.size if found is not None else index + 1 if index else None
    return NodesNamed(said_by="Kubernetes", count=count, variable=kubernetes.INDEX) if count else None


def _tpu_workers(env: Mapping[str, str]) -> NodesNamed | None:
    found = tpu.read(env).cluster
    hosts = [host for host in found.hosts if not is_loopback(host)] if found is not None else []
    return NodesNamed(said_by="Cloud TPU", count=len(hosts), variable="TPU_WORKER_HOSTNAMES") if hosts else None


def _lsf(env: Mapping[str, str]) -> NodesNamed | None:
    """``LSB_MCPU_HOSTS``: ``node1 4 node2 4``."""
    hosts = set(env.get("LSB_MCPU_HOSTS", "").split()[::2])
    return NodesNamed(said_by="LSF", count=len(hosts), variable="LSB_MCPU_HOSTS") if hosts else None


_READERS: tuple[Reader, ...] = (
    _counted(COUNTED_RANKS),
    _ranks_per_node,
    _step,
    _pods,
    _tpu_workers,
    _counted(COUNTED_JOB),
    _lsf,
)
"""The one that is closest to the ranks first."""
