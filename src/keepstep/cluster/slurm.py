# SPDX-License-Identifier: Apache-2.0
"""Slurm: tasks, their host names, and the compressed forms that it writes them in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from keepstep.base.launchers import SLURM
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.cluster.launcher_answer import MOST_TASKS, ClusterSaid, Variables
from keepstep.model.facts.cluster import Fault

LONGEST = 1_000_000
MOST_BRACKETS = 8


def read(env: Mapping[str, str]) -> ClusterSaid:
    """The tasks of a job step; a batch script without srun is one process and says nothing about a cluster."""
    if SLURM.rank[0] not in env or "SLURM_STEP_ID" not in env:
        return ClusterSaid()
    read = Variables(env)
    size, rank, local = read.place(SLURM, needed=("rank",))
    if size is None:
        return ClusterSaid(faults=read.faults)
    hosts = _hosts(env, read)
    per_host = _tasks_per_host(env, hosts, size, read)
    tasks: list[Task] = []
    for host, count in zip(hosts, per_host, strict=False):
        for index in range(count):
            tasks.append(Task(rank=len(tasks), index=len(tasks), host=host, local=index))
    if len(tasks) != size:
        tasks = [Task(rank=each, index=each, local=local if each == rank else None) for each in range(size)]
    job = env.get(SLURM.job[0])
    return ClusterSaid(
        Cluster(said_by=SLURM.name, tasks=tuple(tasks), me=rank, job=f"{job}.{env['SLURM_STEP_ID']}"), read.faults
    )


def _hosts(env: Mapping[str, str], read: Variables) -> list[str]:
    for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        if text := env.get(name, "").strip():
            hosts = list(expand_hosts(text)) if len(text) <= LONGEST else []
            if not hosts:
                read.fault(name, Fault.ADDRESS_MALFORMED, text, "a list of hosts such as node[01-04]")
            return hosts
    return []


def _tasks_per_host(env: Mapping[str, str], hosts: list[str], size: int, read: Variables) -> list[int]:
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        if text := env.get(name, "").strip():
            counts = list(expand_counts(text)) if len(text) <= LONGEST else []
            if sum(counts) == size and len(counts) == len(hosts):
                return counts
    if hosts and size % len(hosts) == 0:
        return [size // len(hosts)] * len(hosts)
    return []


def expand_hosts(text: str) -> Iterator[str]:
    """``gpu[01-03,7],login`` as gpu01, gpu02, gpu03, gpu7, login; nothing where it cannot be read."""
    made = 0
    for part in _parts(text):
        for host in _expand(part.strip()) if part.count("[") <= MOST_BRACKETS else ():
            made += 1
            if made > MOST_TASKS:
                return
            yield host


def _parts(text: str) -> Iterator[str]:
    """What commas outside brackets separate."""
    begin = depth = 0
    for mark in re.finditer(r"[\[\],]", text):
        depth += {"[": 1, "]": -1, ",": 0}[mark[0]]
        if mark[0] == "," and depth == 0:
            yield text[begin : mark.start()]
            begin = mark.end()
    yield text[begin:]


def _expand(part: str) -> Iterator[str]:
    if not part:
        return
    bracket = re.match(r"([^\[\]]*)\[([^\[\]]*)\](.*)$", part)
    if not bracket:
        if re.fullmatch(r"[\w.-]{1,253}", part):
            yield part
        return
    before, inside, after = bracket.groups()
    for piece in inside.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", piece)
        if not ends:
            continue
        first, last = int(ends[1]), int(ends[2] or ends[1])
        for number in range(first, min(last, first + MOST_TASKS) + 1):
            yield from _expand(f"{before}{number:0{len(ends[1])}d}{after}")


def expand_counts(text: str) -> Iterator[int]:
    """``2(x3),1`` as 2, 2, 2, 1; nothing where it cannot be read."""
    for piece in text.split(","):
        read = re.fullmatch(r"\s*(\d{1,6})(?:\(x(\d{1,6})\))?\s*", piece)
        if not read:
            return
        yield from [int(read[1])] * min(int(read[2] or 1), MOST_TASKS)
