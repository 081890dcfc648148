# SPDX-License-Identifier: Apache-2.0
"""What each launcher's variables mean: the one table of their names. `cluster/` understands their values.

To add a launcher, add a row here and a file in `cluster/` whose ``read(env)`` says what the variables mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Trust(IntEnum):
    """In which turn the variables of a process are believed when they disagree, seen from outside."""

    FRAMEWORK = 0
    """The framework itself reads them."""
    CLUSTER = 1
    """A description of the whole cluster."""
    LAUNCHER = 2
    ARGUMENTS = 3
    """No variable: the rank in the process's own arguments comes here."""
    BYSTANDERS = 4
    """Processes that are no rank carry them too: all of a job step, or of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The variables of one launcher. Where there are several names for one meaning, the first is believed first."""

    name: str
    """What reports call it."""
    reader: str | None = None
    """The module of `cluster/` that understands it."""
    trust: Trust = Trust.LAUNCHER
    rank: tuple[str, ...] = ()
    size: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    meeting: tuple[str, ...] = ()
    """Where the ranks meet: one ``host:port``, or the host and then the port."""
    job: tuple[str, ...] = ()
    """What the ranks of one job have in common."""
    attempt: tuple[str, ...] = ()
    """How often the launcher has started the ranks again."""
    only_ranks: bool = False
    """Only ranks carry these variables, so a process that has one is a rank."""
    started_by: tuple[str, str] | None = None
    """A variable that proves that a launcher started this very command, and the launcher's name.

    Where the variable is one of ``size``, it proves so only from 2 on.
    """

    @property
    def of_one_rank(self) -> tuple[str, ...]:
        """The variables whose values belong to one rank, or to one start."""
        return (*self.rank, *self.local_rank, *self.meeting)


TF_CONFIG = Launcher(name="TF_CONFIG", reader="tf_config", trust=Trust.CLUSTER, rank=("TF_CONFIG",), only_ranks=True)
TORCHRUN = Launcher(
    name="torchrun",
    reader="torchrun",
    trust=Trust.FRAMEWORK,
    rank=("RANK",),
    size=("WORLD_SIZE",),
    local_rank=("LOCAL_RANK",),
    local_size=("LOCAL_WORLD_SIZE",),
    meeting=("MASTER_ADDR", "MASTER_PORT"),
    job=("TORCHELASTIC_RUN_ID",),
    attempt=("TORCHELASTIC_RESTART_COUNT",),
    only_ranks=True,
    started_by=("TORCHELASTIC_RUN_ID", "torchrun"),
)
JAX = Launcher(
    name="JAX",
    reader="jax",
    trust=Trust.FRAMEWORK,
    rank=("JAX_PROCESS_ID", "JAX_PROCESS_INDEX"),
    size=("JAX_NUM_PROCESSES", "JAX_PROCESS_COUNT"),
    meeting=("JAX_COORDINATOR_ADDRESS",),
    only_ranks=True,
)
JAX_SCRIPTS = Launcher(  # JAX itself reads none of these; many scripts do, and pass them on
    name="JAX",
    reader="jax",
    trust=Trust.BYSTANDERS,
    rank=("PROCESS_ID",),
    size=("NUM_PROCESSES",),
    meeting=("COORDINATOR_ADDRESS",),
    only_ranks=True,
)
SLURM = Launcher(
    name="Slurm",
    reader="slurm",
    trust=Trust.BYSTANDERS,
    rank=("SLURM_PROCID",),
    size=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"),
    local_rank=("SLURM_LOCALID",),
    job=("SLURM_JOB_ID",),
    started_by=("SLURM_STEP_NUM_TASKS", "srun"),
)
OPEN_MPI = Launcher(
    name="Open MPI",
    reader="mpi",
    rank=("OMPI_COMM_WORLD_RANK",),
    size=("OMPI_COMM_WORLD_SIZE",),
    local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
    local_size=("OMPI_COMM_WORLD_LOCAL_SIZE",),
    job=("OMPI_MCA_ess_base_jobid",),
    only_ranks=True,
    started_by=("OMPI_COMM_WORLD_SIZE", "mpirun"),
)
HOROVOD = Launcher(
    name="Horovod",
    reader="mpi",
    rank=("HOROVOD_RANK",),
    size=("HOROVOD_SIZE",),
    local_rank=("HOROVOD_LOCAL_RANK",),
    local_size=("HOROVOD_LOCAL_SIZE",),
    only_ranks=True,
    started_by=("HOROVOD_SIZE", "horovodrun"),
)
MVAPICH = Launcher(
    name="MVAPICH2",
    reader="mpi",
    rank=("MV2_COMM_WORLD_RANK",),
    size=("MV2_COMM_WORLD_SIZE",),
    local_rank=("MV2_COMM_WORLD_LOCAL_RANK",),
    local_size=("MV2_COMM_WORLD_LOCAL_SIZE",),
    started_by=("MV2_COMM_WORLD_SIZE", "mpirun"),
)
PMI = Launcher(
    name="PMI",
    reader="mpi",
    rank=("PMI_RANK",),
    size=("PMI_SIZE",),
    local_rank=("MPI_LOCALRANKID",),
    local_size=("MPI_LOCALNRANKS",),
    job=("PMI_JOBID",),
    only_ranks=True,
    started_by=("PMI_SIZE", "mpirun"),
)
PMIX = Launcher(name="PMIx", rank=("PMIX_RANK",), job=("PMIX_NAMESPACE",))
TPU = Launcher(name="Cloud TPU", reader="tpu", trust=Trust.BYSTANDERS, rank=("TPU_WORKER_ID", "CLOUD_TPU_TASK_ID"))
KUBERNETES = Launcher(name="Kubernetes", reader="kubernetes", started_by=("KUBERNETES_SERVICE_HOST", "Kubernetes"))
RAY = Launcher(name="Ray", reader="ray")
DEEPSPEED = Launcher(name="DeepSpeed", started_by=("CROSS_SIZE", "deepspeed"))
PBS = Launcher(name="PBS", job=("PBS_JOBID",))
LSF = Launcher(name="LSF", job=("LSB_JOBID",))
KEEPSTEP = Launcher(
    name="keepstep run",
    rank=("KEEPSTEP_RANK",),
    size=("KEEPSTEP_WORLD",),
    meeting=("KEEPSTEP_COORDINATOR",),
    attempt=("KEEPSTEP_ATTEMPT",),
    started_by=("KEEPSTEP_WORLD", "keepstep run"),
)

LAUNCHERS = (
    TF_CONFIG, TORCHRUN, JAX, SLURM, JAX_SCRIPTS, OPEN_MPI, HOROVOD, MVAPICH, PMI, PMIX, TPU, KUBERNETES, RAY,
    DEEPSPEED, PBS, LSF, KEEPSTEP,
)  # fmt: skip
"""In the order in which a training script would believe them."""

PROGRAMS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun", "ray")
MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
)
"""Launchers by the program or the Python module that a command line names."""


def first_set(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The first of these variables that has a value."""
    return next((name for name in names if env.get(name, "").strip()), None)
