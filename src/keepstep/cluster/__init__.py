# SPDX-License-Identifier: Apache-2.0
"""What launchers' variables say about a run, as one type: the table of names is `base/launchers.py`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from keepstep.base.launchers import LAUNCHERS, Trust, first_set
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.launcher_answer import ClusterSaid, Variables
from keepstep.model.facts.cluster import Fault

_READERS: tuple[Callable[[Mapping[str, str]], ClusterSaid], ...] = tuple(
    importlib.import_module(f"{__name__}.{reader}").read
    for reader in dict.fromkeys(each.reader for each in LAUNCHERS if each.reader is not None)
)
"""Of every launcher, in the order in which a training script would believe them."""


def all_said(env: Mapping[str, str]) -> list[ClusterSaid]:
    """What every launcher that left variables says, the one that a training script would believe first."""
    found = (_within(read(env), env) for read in _READERS)
    return [said for said in found if said.cluster or said.faults]


def _within(said: ClusterSaid, env: Mapping[str, str]) -> ClusterSaid:
    """With a fault for each number outside its range, whatever the reader made of it. Rank 4 of 4 ranks is nobody."""
    cluster = said.cluster
    if cluster is None:
        return said
    rows = [each for each in LAUNCHERS if each.name == cluster.said_by]
    read = Variables(env)
    if all(each.trust is not Trust.CLUSTER for each in rows):
        states_size = first_set(env, tuple(name for each in rows for name in each.size)) is not None
        read.place(*rows, size=None if states_size else cluster.size)
    me = cluster.me if cluster.me is None or 0 <= cluster.me < cluster.size else None
    if me != cluster.me and not read.faults and not said.faults:
        name = first_set(env, tuple(name for each in rows for name in each.rank)) or cluster.said_by
        read.fault(name, Fault.OUT_OF_RANGE, str(cluster.me), f"a number from 0 to {cluster.size - 1}")
    known = {fault.variable for fault in said.faults}
    faults = [*said.faults, *(fault for fault in read.faults if fault.variable not in known)]
    return ClusterSaid(replace(cluster, me=me) if cluster.tasks else None, faults)


def understand(env: Mapping[str, str] | None = None) -> Cluster | None:
    """The cluster that the variables of a process (by default, of this one) mean; None where they mean none."""
    clusters = [said.cluster for said in all_said(os.environ if env is None else env) if said.cluster]
    if not clusters:
        return None
    best = clusters[0]
    for other in clusters[1:]:
        if other.size == best.size:
            best = _completed(best, other)
    return best


def _completed(cluster: Cluster, other: Cluster) -> Cluster:
    """Add what the first does not say from one that means the same tasks: who I am, where they run, the job's name."""
    me = cluster.me if cluster.me is not None else other.me
    tasks = cluster.tasks
    if other.me in (None, me):
        tasks = tuple(
            replace(a, host=a.host or b.host, local=a.local if a.local is not None else b.local)
            for a, b in zip(cluster.tasks, other.tasks, strict=True)
        )
    return replace(cluster, me=me, tasks=tasks, meeting=cluster.meeting or other.meeting, job=cluster.job or other.job)
