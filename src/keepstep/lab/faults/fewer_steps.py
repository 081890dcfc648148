# SPDX-License-Identifier: Apache-2.0
"""One rank was told to train for fewer steps than the others, and leaves early."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

STEPS = 50


def prepare(run: Run) -> None:
    for rank in run.scenario.strike_ranks or (1,):
        run.args[rank] += ["--steps", str(STEPS)]


def proof(run: Run) -> str:
    return run.proof_in_log(run.scenario.struck, f"finished after {STEPS} steps")
