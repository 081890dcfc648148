# SPDX-License-Identifier: Apache-2.0
"""Trains a Gaussian-process-like regression on a TPU."""

import numpy as np
import tensorflow as tf

INDUCING = 64
BATCH = 1024


def tpu_strategy(address=""):
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


class Features(tf.keras.layers.Layer):
    def build(self, shape):
        self.centres = self.add_weight(shape=(INDUCING, shape[-1]), initializer="random_normal", name="centres")

    def call(self, x):
        distance = tf.reduce_sum(tf.square(x[:, None, :] - self.centres[None]), axis=-1)
        return tf.exp(-0.5 * distance)


def samples(path):
    table = np.load(path)
    x = table["x"]
    x = tf.cast(x, tf.float32)
    y = tf.cast(table["y"], tf.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(10_000).repeat()
    return dataset.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    strategy = tpu_strategy()
    with strategy.scope():
        model = tf.keras.Sequential([Features(), tf.keras.layers.Dense(1)])
        model.compile(optimizer=tf.keras.optimizers.Adam(1e-2), loss="mse")
    model.fit(samples("train.npz"), epochs=5, steps_per_epoch=1000)


if __name__ == "__main__":
    main()
