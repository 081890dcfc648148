# SPDX-License-Identifier: Apache-2.0
"""The rank's data file holds points of another width, as of an older version of the data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    from keepstep.lab import data

    inputs, labels = data.points(run.scenario.struck)
    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    data.put(path, inputs[:, :24], labels)
    run.strike(f"{path.name} has points of width 24, the others {data.WIDTH}")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
