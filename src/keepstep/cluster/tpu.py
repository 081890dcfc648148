# SPDX-License-Identifier: Apache-2.0
"""TPU pods: the worker's number and the names of all workers, as Cloud TPU and GKE set them.

Built from documentation.
"""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.base.launchers import TPU
from keepstep.cluster.address import read_address
from keepstep.cluster.cluster_type import Cluster, Task
from keepstep.cluster.launcher_answer import ClusterSaid, Variables
from keepstep.model.facts.cluster import Fault

PORT = 8476
"""Where JAX's coordinator listens on Cloud TPU."""


def read(env: Mapping[str, str]) -> ClusterSaid:
    """TPU_WORKER_ID and TPU_WORKER_HOSTNAMES (or TPU_PROCESS_ADDRESSES)."""
    named = next(
        (name for name in ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES") if env.get(name, "").strip()), None
    )
    if named is None:
        return ClusterSaid()
    read = Variables(env)
    hosts = [part.strip() for part in env[named][:1_000_000].split(",") if part.strip()]
    _, me, _ = read.place(TPU, needed=("rank",), size=len(hosts))
    tasks = []
    for rank, text in enumerate(hosts):
        address = read_address(text, PORT)
        if address.fault not in (None, Fault.ADDRESS_WITHOUT_PORT):
            read.fault(named, address.fault or Fault.ADDRESS_MALFORMED, text, "host names, separated by commas")
        tasks.append(Task(rank=rank, index=rank, host=address.host, port=address.port))
    meeting = f"{tasks[0].host}:{PORT}" if tasks and tasks[0].host else None
    return ClusterSaid(Cluster(said_by=TPU.name, tasks=tuple(tasks), me=me, meeting=meeting), read.faults)
