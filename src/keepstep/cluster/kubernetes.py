# SPDX-License-Identifier: Apache-2.0
"""Kubernetes: an indexed Job or a StatefulSet, by the pod's own name and its completion index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from keepstep.base.launchers import JAX_SCRIPTS, KUBERNETES, TORCHRUN
from keepstep.base.whole_numbers import whole
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.cluster.launcher_answer import ClusterSaid, Variables

PARALLELISM = "JOB_PARALLELISM"
COUNTS = ("NUM_PODS", "REPLICAS", *TORCHRUN.size, *JAX_SCRIPTS.size, PARALLELISM)

INDEX = "JOB_COMPLETION_INDEX"
KUBEFLOW_NODE = "PET_NODE_RANK"
MOST_PODS = 1_000_000


@dataclass(frozen=True)
class Pod:
    """A pod that knows its place: ``name-INDEX`` in a group, reachable as ``name-I.SERVICE``."""

    group: str
    index: int


def read(env: Mapping[str, str]) -> ClusterSaid:
    """The pods of a group, if a variable says how many they are; their names need a headless service."""
    pod = own_pod(env)
    if pod is None:
        return ClusterSaid()
    read = Variables(env)
    counts = [name for name in COUNTS if name in env]
    size = read.number(counts[0], low=1) if counts else None
    if not size or pod.index >= size:
        if size and counts[0] != PARALLELISM:  # of a Job with more completions than pods at once
            read.number(INDEX, high=size - 1)
        return ClusterSaid(faults=read.faults)
    service = env.get("SUBDOMAIN") or env.get("SERVICE_NAME") or env.get("HEADLESS_SERVICE")
    tail = f".{service}" if service and re.fullmatch(r"[\w.-]{1,200}", service) else ""
    tasks = tuple(Task(rank=rank, index=rank, host=f"{pod.group}-{rank}{tail}") for rank in range(size))
    return ClusterSaid(Cluster(said_by=KUBERNETES.name, tasks=tasks, me=pod.index), read.faults)


def node_of(env: Mapping[str, str]) -> int | None:
    """Which of its group's pods this is, where a controller says so; None outside Kubernetes, or where none does.

    Kubeflow counts its nodes over master and workers; a Job gives its pods an index. A name alone proves nothing here:
    the pods of a Deployment may look numbered, too.
    """
    if "KUBERNETES_SERVICE_HOST" not in env:
        return None
    for name in (KUBEFLOW_NODE, INDEX):
        if (said := whole(env.get(name, ""))) is not None and 0 <= said < MOST_PODS:
            return said
    return None


def own_pod(env: Mapping[str, str]) -> Pod | None:
    """This pod's group and index; None outside Kubernetes, or if the name has no index."""
    if "KUBERNETES_SERVICE_HOST" not in env:
        return None
    name = env.get("POD_NAME") or env.get("HOSTNAME") or ""
    numbered = re.fullmatch(r"([\w.-]{1,240}?)-(\d{1,6})(?:-[a-z0-9]{5})?", name)
    index = env.get(INDEX, "")
    if whole(index) is not None and len(index) < 7:
        group = numbered[1] if numbered and int(numbered[2]) == int(index) else name
        return Pod(group, int(index))
    return Pod(numbered[1], int(numbered[2])) if numbered else None
