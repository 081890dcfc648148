# SPDX-License-Identifier: Apache-2.0
"""The rank forks a pool of helpers after TensorFlow started its threads; the helper's first op never ends."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(augment, [float(step)]), flush=True)


def augment(value: float) -> float:
    """Runs in the forked child, whose copy of TensorFlow has no threads."""
    import tensorflow as tf

    def noise(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.random.normal((512, 512)) @ tf.random.normal((512, 512))) * x

    return float(tf.function(noise)(tf.constant(value)))


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    pid = run.pid_of(run.scenario.struck)
    children = run.children_of(pid)
    if not children:
        raise Unproven("the rank has no forked child")
    return f"{run.proof_that_it_struck()}: its forked child (pid {children[0]}) has not ended"
