# SPDX-License-Identifier: Apache-2.0
"""Not a fault: every rank traces a tf.function with very many operations, which takes a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

LAYERS = 60_000


def at(step: int, rank: int) -> None:
    import tensorflow as tf

    def unrolled(x: tf.Tensor) -> tf.Tensor:
        for _ in range(LAYERS):
            x = tf.tanh(x) + 0.5
        return x

    tf.function(unrolled).get_concrete_function(tf.TensorSpec((4,), tf.float32))
    print("the large function is traced", flush=True)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if "is traced" in run.log_of(run.scenario.struck):
        raise Unproven("the tracing has ended")
    return f"{run.proof_that_it_struck()} and still traces"
