# SPDX-License-Identifier: Apache-2.0
"""The rank's data file is well formed and has no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    from keepstep.lab import data

    inputs, labels = data.points(run.scenario.struck)
    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    data.put(path, inputs[:0], labels[:0])
    run.strike(f"{path.name} has no rows, the others {data.ROWS}")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
