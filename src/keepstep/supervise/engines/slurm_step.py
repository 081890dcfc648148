# SPDX-License-Identifier: Apache-2.0
"""What Slurm's variables say about where this process is: a task of a step, or the job's own script."""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.base.launchers import SLURM, first_set
from keepstep.errors import UserError
from keepstep.supervise.engines.nodes_asked_for import Wanted

SRUN = "srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 keepstep run"


def is_step(env: Mapping[str, str]) -> bool:
    """Whether this is one of several tasks that srun has started."""
    return "SLURM_STEP_ID" in env and SLURM.rank[0] in env and (tasks_of(env) or 1) > 1


def is_batch(env: Mapping[str, str]) -> bool:
    """Whether this is a job's own script, which runs on its first node only."""
    return "SLURM_JOB_ID" in env and "SLURM_STEP_ID" not in env


def not_by_srun(wanted: Wanted) -> UserError:
    """In the batch script, without srun."""
    option = f"--per-node {wanted.per_node} " if wanted.per_node is not None else ""
    return UserError(
        "a job's own script runs on its first node only; srun starts one agent on each node",
        hint=f"{SRUN} {option}-- COMMAND",
    )


def tasks_of(env: Mapping[str, str]) -> int | None:
    name = first_set(env, SLURM.size)
    return number(env, name) if name is not None else None


def number(env: Mapping[str, str], name: str) -> int | None:
    """A variable's value, if it is a number."""
    text = env.get(name, "").strip()
    return int(text) if text.isdecimal() and len(text) < 10 else None
