# SPDX-License-Identifier: Apache-2.0
"""The data file of the TensorFlow checkpoint to resume from lost its second half."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import good_tf_checkpoint

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    path = Path(good_tf_checkpoint.save(run, 64) + ".data-00000-of-00001")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    run.strike(f"{path.name} was cut from {len(whole)} to {len(whole) // 2} bytes")


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
