# SPDX-License-Identifier: Apache-2.0
"""Cluster: what every launcher's variables come to."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One process of the job. ``rank`` counts all roles that train or serve; what is unknown is None."""

    rank: int
    role: str = "worker"
    index: int = 0
    host: str | None = None
    port: int | None = None
    local: int | None = None

    @property
    def address(self) -> str | None:
        """``host:port``, IPv6 in brackets; None where either is not known."""
        if self.host is None or self.port is None:
            return None
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """All tasks of a job, as ``said_by`` (``TF_CONFIG``, ``torchrun``, ``Slurm``, ...) tells it to one process."""

    said_by: str
    tasks: tuple[Task, ...]
    me: int | None = None
    """The rank of the process that has these variables."""
    meeting: str | None = None
    """``host:port`` where the processes meet (MASTER_ADDR, JAX's coordinator), if there is such a place."""
    job: str | None = None
    """What the scheduler calls the job."""

    @property
    def size(self) -> int:
        return len(self.tasks)

    @property
    def own(self) -> Task | None:
        return next((task for task in self.tasks if task.rank == self.me), None)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host once, in order of rank."""
        return tuple(dict.fromkeys(task.host for task in self.tasks if task.host is not None))
