# SPDX-License-Identifier: Apache-2.0
"""Trains with fit() on all local devices, with a batch that was meant for each of them.

From: https://github.com/keras-team/keras-io/issues/316
Shows: differs 2 devices tensorflow: twice as many steps per epoch, each replica with half of its batch
"""

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

BATCH_SIZE_PER_REPLICA = 32


class CountSteps(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1


def numbers():
    x = np.random.default_rng(17).normal(size=(640, 7)).astype("float32")
    return x, np.abs(x).sum(axis=1, keepdims=True)


def get_dataset(batch_size):
    return tf.data.Dataset.from_tensor_slices(numbers()).shuffle(640, seed=0).batch(batch_size, drop_remainder=True)


def compiled_model():
    model = tf.keras.Sequential([tf.keras.Input((7,)), layers.Dense(16, activation="relu"), layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="mse")
    return model


def main():
    strategy = tf.distribute.MirroredStrategy()
    global_batch_size = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync
    with strategy.scope():
        model = compiled_model()
    counter = CountSteps()
    train = get_dataset(BATCH_SIZE_PER_REPLICA)  # BUG COD208
    model.fit(train, epochs=2, verbose=0, callbacks=[counter])
    print(f"{counter.steps} steps; {640 * 2 // global_batch_size} were expected")


if __name__ == "__main__":
    main()
