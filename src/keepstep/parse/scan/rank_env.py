# SPDX-License-Identifier: Apache-2.0
"""Who a process is, by the environment variables and arguments that launchers give it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.core.numbers import whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process's place in its job. ``by``: the variable or argument that said so."""

    rank: int
    world: int | None = None
    local: int | None = None
    local_world: int | None = None
    role: str | None = None
    by: str = ""
    job: str | None = None
    """What the members of one job have in common, where the variables say it."""


_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", None, None),
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMIX_RANK", None, None, None),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", None),
    ("PROCESS_ID", "NUM_PROCESSES", None, None),
    ("CLOUD_TPU_TASK_ID", None, None, None),
    ("TPU_WORKER_ID", None, None, None),
)
_JOBS = (
    "COORDINATOR_ADDRESS", "JAX_COORDINATOR_ADDRESS", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PBS_JOBID", "LSB_JOBID",
)  # fmt: skip
NAMES = (*(name for row in _VARIABLES for name in row if name), "TF_CONFIG")
"""The variables that say something."""

_ARGUMENT = lazy_pattern(
    r"^--?(?:(?:global[_-]?)?rank|process[_-]id|task[_-](?:index|id)|worker[_-]index|local[_-]rank)(?:=(?P<rank>\d+))?$"
)
_JOB_ARGUMENT = lazy_pattern(r"^--?(?:job[_-]name|task[_-]type)(?:=(?P<job>[a-z_]+))?$")
LARGEST_RANK = 10_000_000


def member(environment: Mapping[str, str], arguments: Sequence[str] = ()) -> Member | None:
    """The process's rank, if a launcher's variables or its own arguments say so."""
    found = _by_any(environment, arguments)
    return replace(found, job=_job(environment)) if found is not None else None


def _by_any(environment: Mapping[str, str], arguments: Sequence[str]) -> Member | None:
    return (
        _by_variables(environment, _VARIABLES[:2])
        or _by_tf_config(environment.get("TF_CONFIG"))
        or _by_variables(environment, _VARIABLES[2:-4])
        or _by_arguments(arguments)
        or _by_variables(environment, _VARIABLES[-4:])
    )


def _job(environment: Mapping[str, str]) -> str | None:
    address = environment.get("MASTER_ADDR"), environment.get("MASTER_PORT")
    if all(address):
        return ":".join(part or "" for part in address)
    if "TF_CONFIG" in environment:
        try:
            return json.dumps(json.loads(environment["TF_CONFIG"])["cluster"], sort_keys=True)[:2000]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
    return next((environment[name] for name in _JOBS if environment.get(name)), None)


def _by_variables(
    environment: Mapping[str, str], rows: Sequence[tuple[str, str | None, str | None, str | None]]
) -> Member | None:
    for rank, world, local, local_world in rows:
        index = _number(environment.get(rank))
        if index is not None:
            return Member(
                rank=index,
                world=_number(environment.get(world or "")),
                local=_number(environment.get(local or "")),
                local_world=_number(environment.get(local_world or "")),
                by=rank,
            )
    return None


def _by_tf_config(text: str | None) -> Member | None:
    if not text or len(text) > 4 << 20:
        return None
    try:
        config = json.loads(text)
        task, cluster = config["task"], config.get("cluster", {})
        role, index = str(task["type"]), int(task["index"])
        sizes = {str(job): len(tasks) for job, tasks in cluster.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    before = ("chief", "master") if role == "worker" else ()
    rank = index + sum(sizes.get(job, 0) for job in before)
    world = sum(sizes.get(job, 0) for job in ("chief", "master", "worker")) or None
    return Member(rank=rank, world=world, role=role, by="TF_CONFIG") if 0 <= rank <= LARGEST_RANK else None


def _by_arguments(arguments: Sequence[str]) -> Member | None:
    rank: int | None = None
    role: str | None = None
    for n, argument in enumerate(arguments[:500]):
        after = arguments[n + 1] if n + 1 < len(arguments) else ""
        found = _ARGUMENT.match(argument)
        if found and rank is None:
            rank = _number(found["rank"] or after)
        job = _JOB_ARGUMENT.match(argument)
        if job:
            role = job["job"] or after or None
    return Member(rank=rank, role=role, by="arguments") if rank is not None else None


def _number(text: str | None) -> int | None:
    return whole(text) if text is not None and len(text) <= 8 else None
