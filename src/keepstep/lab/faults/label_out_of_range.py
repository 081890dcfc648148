# SPDX-License-Identifier: Apache-2.0
"""One sample of the rank's file carries a class that the model does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

ROW = 200


def prepare(run: Run) -> None:
    from keepstep.lab import data

    inputs, labels = data.points(run.scenario.struck)
    labels[ROW] = 10
    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    data.put(path, inputs, labels)
    run.strike(f"row {ROW} of {path.name} has the label 10 of classes 0 to 9")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
