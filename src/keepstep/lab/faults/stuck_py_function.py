# SPDX-License-Identifier: Apache-2.0
"""A py_function of the rank's input pipeline reads from storage that does not answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import tell

if TYPE_CHECKING:
    from keepstep.lab.run import Run

ROWS = 640


def change_data(data: Any) -> Any:
    import tensorflow as tf

    def augment(index: Any, x: Any) -> Any:
        if int(index) == ROWS:
            tell("the py_function waits in read()")
            reader, _ = os.pipe()
            os.read(reader, 1)
        return x

    def map_example(index: Any, example: Any) -> Any:
        inputs, labels = example
        changed = tf.py_function(augment, (index, inputs), tf.float32)
        return tf.ensure_shape(changed, inputs.shape), labels

    return data.enumerate().map(map_example)


def outside(run: Run) -> None:
    run.until(lambda: any("waits" in what for _, what in run.strikes()))


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = run.strikes()[-1][1]
    if "waits" not in told or not run.alive(run.scenario.struck):
        raise Unproven("the py_function does not wait")
    return told
