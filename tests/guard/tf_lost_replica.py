# SPDX-License-Identifier: Apache-2.0
"""Three replicas of one process; the loss of the second one becomes NaN at one step, and all others a step later.

python tf_lost_replica.py graph|eager: how the step is called. Run by test_tensorflow_lost_replica.py.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

REPLICAS, STEPS, LOST_AT, ROWS = 3, 30, 12, 4


def main(how: str) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)])
    inputs = np.random.default_rng(0).normal(size=(ROWS * REPLICAS * STEPS, 4)).astype("float32")
    second = ROWS * (REPLICAS * LOST_AT + 1)
    inputs[second : second + ROWS] = 1e30  # finite, but its square is not
    with strategy.scope():
        weight = tf.Variable(tf.ones((4, 1)))
        optimizer = tf.keras.optimizers.SGD(0.01)

    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    batches = strategy.experimental_distribute_dataset(
        tf.data.Dataset.from_tensor_slices(inputs).batch(ROWS * REPLICAS)
    )

    @tf.function
    def step(iterator: Any) -> Any:
        return strategy.reduce("mean", strategy.run(replica, (next(iterator),)), axis=None)

    iterator = iter(batches)
    for _ in range(STEPS):
        if how == "graph":
            step(iterator)
        else:
            strategy.run(replica, (next(iterator),))
        time.sleep(0.1)
    print("ended with", float(tf.reduce_sum(weight)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
