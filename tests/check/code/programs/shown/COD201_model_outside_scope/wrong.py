# SPDX-License-Identifier: Apache-2.0
"""Trains a dense classifier on all local devices with fit().

From: https://github.com/tensorflow/hub/issues/469
Shows: error 2 devices tensorflow: Keras asserts that the variables are of this strategy
"""

import numpy as np
import tensorflow as tf

BATCH_PER_REPLICA = 16


def build_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape=(8,)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(3),
        ]
    )


def make_data(batch_size):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 8)).astype("float32")
    y = x[:, :3].argmax(axis=1)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    return dataset.shuffle(256, seed=1).batch(batch_size, drop_remainder=True)


def main():
    tf.keras.utils.set_random_seed(11)
    strategy = tf.distribute.MirroredStrategy()
    dataset = make_data(BATCH_PER_REPLICA * strategy.num_replicas_in_sync)
    model = build_model()  # BUG COD201
    with strategy.scope():
        model.compile(
            optimizer=tf.keras.optimizers.SGD(0.1),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    history = model.fit(dataset, epochs=3, verbose=0)
    print("epochs", len(history.history["loss"]))


if __name__ == "__main__":
    main()
