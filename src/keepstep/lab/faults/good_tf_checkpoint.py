# SPDX-License-Identifier: Apache-2.0
"""Not a fault: a sound TensorFlow checkpoint of step 40 to resume from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SAVE = """
import sys, tensorflow as tf, train
model = train.build(*[int(word) for word in sys.argv[2:]])
print(tf.train.Checkpoint(model=model, seen=tf.Variable(40, dtype=tf.int64, trainable=False)).save(sys.argv[1]))
"""


def prepare(run: Run) -> None:
    save(run, 64)


def save(run: Run, width: int) -> str:
    """Write the checkpoint of a model of this width, tell the ranks of it, and return its prefix."""
    path = run.in_training_python(SAVE, str(run.work / "ckpt"), str(width)).splitlines()[-1]
    for args in run.args:
        args += ["--resume", path]
    return path


def proof(run: Run) -> str:
    return run.proof_in_log(0, "resumed from")
