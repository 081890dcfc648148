# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow checkpoint to resume from is of a wider model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import good_tf_checkpoint

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    run.strike(f"{Path(good_tf_checkpoint.save(run, 96)).name} is of a model of width 96, the job's has 64")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
