# SPDX-License-Identifier: Apache-2.0
"""The rank's data file has fewer rows than the others'."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

ROWS = 200


def prepare(run: Run) -> None:
    from keepstep.lab import data

    inputs, labels = data.points(run.scenario.struck)
    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    data.put(path, inputs[:ROWS], labels[:ROWS])
    run.strike(f"{path.name} has {ROWS} rows, the others {data.ROWS}")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
