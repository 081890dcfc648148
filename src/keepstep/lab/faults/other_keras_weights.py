# SPDX-License-Identifier: Apache-2.0
"""The Keras weights file to start from is of a wider model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SAVE = "import sys, train; train.build(96).save_weights(sys.argv[1])"


def prepare(run: Run) -> None:
    path = str(run.work / "start.weights.h5")
    run.in_training_python(SAVE, path)
    run.strike("start.weights.h5 is of a model of width 96, the job's has 64")
    for args in run.args:
        args += ["--load-weights", path]


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
