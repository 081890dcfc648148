# SPDX-License-Identifier: Apache-2.0
"""Mirrored variables of one process: a healthy `fit`, a custom loop, and one that assigns weights per replica.

Run by test_tensorflow_replicas.py.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tensorflow as tf

REPLICAS, STEPS = 3, 24


def main(*hows: str) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)])
    source = np.random.default_rng(0)
    rows = (source.normal(size=(6 * STEPS, 4)).astype("float32"), source.normal(size=(6 * STEPS, 1)).astype("float32"))
    for how in hows:
        with strategy.scope():
            tf.keras.utils.set_random_seed(1)
            layers = [tf.keras.layers.Dense(8, name=f"{how}_first"), tf.keras.layers.BatchNormalization()]
            model = tf.keras.Sequential([tf.keras.Input((4,)), *layers, tf.keras.layers.Dense(1, name=f"{how}_last")])
            model.compile(tf.keras.optimizers.Adam(0.01), "mse")
        if how == "fit":
            model.fit(*rows, batch_size=6, shuffle=False, verbose=0)
        else:
            loop(strategy, model, tf.data.Dataset.from_tensor_slices(rows).batch(6), how)
        print(how, "ended with", float(np.abs(model.layers[-1].get_weights()[0]).sum()), flush=True)


def loop(strategy: Any, model: Any, batches: Any, how: str) -> None:
    def train_step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        slopes = tape.gradient(loss, model.trainable_variables)
        if how == "assigned":  # each replica its own: nothing refuses it, and nothing adds up the gradients
            for weight, slope in zip(model.trainable_variables, slopes, strict=True):
                weight.value.assign(weight.value - 0.01 * slope)
        else:
            model.optimizer.apply_gradients(zip(slopes, model.trainable_variables, strict=True))

    for x, y in strategy.experimental_distribute_dataset(batches):
        strategy.run(train_step, (x, y))


if __name__ == "__main__":
    main(*sys.argv[1:])
