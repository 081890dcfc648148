# SPDX-License-Identifier: Apache-2.0
"""What launchers say about a run's shape, as one type."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Mapping
from dataclasses import replace

from keepstep.cluster.jax import read_jax
from keepstep.cluster.kubernetes import read_kubernetes
from keepstep.cluster.model import Cluster
from keepstep.cluster.mpi import read_mpi
from keepstep.cluster.ray import read_ray
from keepstep.cluster.said import Said
from keepstep.cluster.slurm import read_slurm
from keepstep.cluster.tf_config import read_tf_config
from keepstep.cluster.torchrun import read_torchrun
from keepstep.cluster.tpu import read_tpu


def all_said(env: Mapping[str, str]) -> list[Said]:
    """What every launcher that left variables says, the one that a training script would believe first."""
    found = []
    if "TF_CONFIG" in env:
        cluster, faults = read_tf_config(env["TF_CONFIG"])
        found.append(Said(cluster, faults))
    readers = (read_torchrun, read_jax, read_slurm, read_mpi, read_tpu, read_kubernetes, read_ray)
    found += [read(env) for read in readers]
    return [said for said in found if said.cluster or said.faults]


def understand(env: Mapping[str, str]) -> Cluster | None:
    """The cluster that the variables of a process mean; None where they mean none."""
    clusters = [said.cluster for said in all_said(env) if said.cluster]
    if not clusters:
        return None
    best = clusters[0]
    for other in clusters[1:]:
        if other.size == best.size:
            best = _completed(best, other)
    return best


def _completed(cluster: Cluster, other: Cluster) -> Cluster:
    """What the first does not say, from another that means the same tasks: who I am, where they run, the job's name."""
    me = cluster.me if cluster.me is not None else other.me
    tasks = cluster.tasks
    if other.me in (None, me):
        tasks = tuple(
            replace(a, host=a.host or b.host, local=a.local if a.local is not None else b.local)
            for a, b in zip(cluster.tasks, other.tasks, strict=True)
        )
    return replace(cluster, me=me, tasks=tasks, meeting=cluster.meeting or other.meeting, job=cluster.job or other.job)


class _Callable(types.ModuleType):
    """``keepstep.cluster()``: the cluster that this process was started into."""

    def __call__(self, env: Mapping[str, str] | None = None) -> Cluster | None:
        return understand(os.environ if env is None else env)


sys.modules[__name__].__class__ = _Callable
