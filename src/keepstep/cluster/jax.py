# SPDX-License-Identifier: Apache-2.0
"""JAX: the coordinator's address by its own variable; count and id by the script, or by what JAX detects."""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.cluster.model import Cluster
from keepstep.cluster.said import Said, Variables, evenly

COORDINATORS = ("JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS")
COUNTS = ("JAX_NUM_PROCESSES", "JAX_PROCESS_COUNT", "NUM_PROCESSES")
IDS = ("JAX_PROCESS_ID", "JAX_PROCESS_INDEX", "PROCESS_ID")
"""JAX itself reads the first of the coordinators; the others are what people's scripts read."""


def read_jax(env: Mapping[str, str]) -> Said:
    """The variables that JAX and the usual scripts read."""
    where = _first(env, COORDINATORS)
    if where is None:
        return Said()
    read = Variables(env)
    meeting = read.address(where)
    if port := read.number("JAX_COORDINATOR_PORT", low=1, high=65535):
        meeting = f"{(meeting or '').rpartition(':')[0]}:{port}" if meeting else None
    count, who = _first(env, COUNTS), _first(env, IDS)
    size = read.number(count, low=1) if count else None
    rank = read.number(who, high=size - 1 if size else 200_000) if who else None
    if size is None:
        return Said(faults=read.faults)
    return Said(Cluster(said_by="JAX", tasks=evenly(size, me=rank), me=rank, meeting=meeting), read.faults)


def write_jax(cluster: Cluster, rank: int, port: int = 1234) -> dict[str, str]:
    """The variables of one process, for scripts that pass them to ``jax.distributed.initialize``."""
    first = cluster.tasks[0]
    host = first.host or "127.0.0.1"
    address = f"[{host}]:{first.port or port}" if ":" in host else f"{host}:{first.port or port}"
    return {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(cluster.size), "JAX_PROCESS_ID": str(rank)}


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if env.get(name, "").strip()), None)
