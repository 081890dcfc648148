# SPDX-License-Identifier: Apache-2.0
"""The replica function adds to a counter whose replicas' values are to be averaged; TensorFlow refuses that for
integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

MADE = "seen = tf.Variable(0, dtype=tf.int64, trainable=False"
AVERAGED = ", aggregation=tf.VariableAggregation.MEAN"
LOSS = "            loss = tf.reduce_mean(losses)\n"
WRONG = "seen.assign_add(tf.shape(inputs, tf.int64)[0])"


def prepare(run: Run) -> None:
    _script.edit(run, MADE, MADE + AVERAGED)
    _script.edit(run, LOSS, f"{LOSS}            {WRONG}\n")


def proof(run: Run) -> str:
    return _script.proof(run, WRONG)
