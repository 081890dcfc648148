# SPDX-License-Identifier: Apache-2.0
"""A tf.function holds its data as constants: the graph grows past protobuf's limit of 2 GB."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

ELEMENTS = 1_150_000_000 // 4


def at(step: int, rank: int) -> None:
    import numpy as np
    import tensorflow as tf

    table = np.ones((ELEMENTS,), dtype="float32")

    def lookup(index: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(table), index) + tf.gather(tf.constant(table + 1), index)

    print(tf.function(lookup)(tf.constant(3)))


def proof(run: Run) -> str:
    return f"{run.proof_that_it_struck()}: two constants of {4 * ELEMENTS >> 20} MB in one graph"
