# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a saved model on all local devices.

From: https://github.com/tensorflow/tensorflow/issues/32561
Shows: error 2 devices tensorflow: Keras asserts that the variables are of this strategy
"""

import os
import pathlib

import numpy as np
import tensorflow as tf

PATH = pathlib.Path(os.environ.get("MODEL_DIR", ".")) / "base.keras"


def pretrain():
    model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    x, y = rows(64)
    model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    model.save(PATH)


def rows(count):
    x = np.random.default_rng(4).normal(size=(count, 5)).astype("float32")
    return x, x.mean(axis=1, keepdims=True)


def fine_tune(strategy):
    batch = 16 * strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.from_tensor_slices(rows(128)).batch(batch, drop_remainder=True)
    model = tf.keras.models.load_model(PATH)  # BUG COD202
    with strategy.scope():
        model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
    return model.fit(dataset, epochs=2, verbose=0)


def main():
    if not PATH.exists():
        pretrain()
    strategy = tf.distribute.MirroredStrategy()
    history = fine_tune(strategy)
    print("epochs", len(history.epoch))


if __name__ == "__main__":
    main()
