# SPDX-License-Identifier: Apache-2.0
"""Some rows of the rank's data file are not numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

FIRST, LAST = 320, 400


def prepare(run: Run) -> None:
    from keepstep.lab import data

    inputs, labels = data.points(run.scenario.struck)
    inputs[FIRST:LAST] = float("nan")
    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    data.put(path, inputs, labels)
    run.strike(f"rows {FIRST} to {LAST} of {path.name} are nan")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
