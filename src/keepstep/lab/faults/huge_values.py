# SPDX-License-Identifier: Apache-2.0
"""Some rows of the rank's data file were never normalised: the loss and then the weights overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

FIRST, LAST = 320, 400


def prepare(run: Run) -> None:
    from keepstep.lab import data

    inputs, labels = data.points(run.scenario.struck)
    inputs[FIRST:LAST] *= 1e30
    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    data.put(path, inputs, labels)
    run.strike(f"rows {FIRST} to {LAST} of {path.name} are 1e30 times too large")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
