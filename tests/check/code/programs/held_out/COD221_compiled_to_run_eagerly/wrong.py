# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier with fit() on all local devices; somebody was debugging it.

From: https://github.com/tensorflow/tensorflow/issues/51900
Shows: nothing here (every step is slower, the results are the same)
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

CLASSES = 4


class Head(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.hidden = keras.layers.Dense(width, activation="relu")
        self.out = keras.layers.Dense(CLASSES)

    def call(self, inputs):
        return self.out(self.hidden(inputs))


def points():
    rng = np.random.default_rng(40)
    x = rng.normal(size=(512, 6)).astype("float32")
    return x, x[:, :CLASSES].argmax(axis=1)


def main():
    strategy = tf.distribute.MirroredStrategy()
    batch = 32 * strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.from_tensor_slices(points()).shuffle(512, seed=3).batch(batch, drop_remainder=True)
    with strategy.scope():
        model = Head(32)
        model.compile(
            optimizer=keras.optimizers.Adam(0.01),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            run_eagerly=True,  # BUG COD221
        )
    history = model.fit(dataset, epochs=3, verbose=0)
    print("epochs", len(history.epoch))


if __name__ == "__main__":
    main()
