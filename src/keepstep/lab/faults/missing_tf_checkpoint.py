# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow checkpoint to resume from was removed, as by a job that keeps the last three."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import good_tf_checkpoint

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    prefix = Path(good_tf_checkpoint.save(run, 64))
    for path in prefix.parent.glob(f"{prefix.name}.*"):
        path.unlink()
    run.strike(f"{prefix.name}.index and .data were removed")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    left = list(run.work.glob("ckpt-1.*"))
    if left:
        raise Unproven(f"{left[0].name} is there")
    return run.proof_that_it_struck()
