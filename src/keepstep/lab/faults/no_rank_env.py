# SPDX-License-Identifier: Apache-2.0
"""The launcher did not tell the processes who they are: no RANK, TF_CONFIG or PROCESS_ID."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

NAMES = {"torch": "RANK", "tensorflow": "TF_CONFIG", "jax": "PROCESS_ID"}


def prepare(run: Run) -> None:
    for env in run.env:
        del env[NAMES[run.scenario.framework]]


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    name = NAMES[run.scenario.framework]
    if any(name in env for env in run.env):
        raise Unproven(f"{name} was set")
    return f"no process was given {name}"
