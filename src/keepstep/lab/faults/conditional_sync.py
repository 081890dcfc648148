# SPDX-License-Identifier: Apache-2.0
"""The rank alone takes part in a sync_global_devices that stands under a condition (JAX)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    from jax.experimental import multihost_utils

    multihost_utils.sync_global_devices("before_evaluation")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if run.scenario.hang and not run.alive(run.scenario.struck):
        raise Unproven(f"rank {run.scenario.struck} has ended")
    return f"{run.proof_that_it_struck()} and did not get out of it"
