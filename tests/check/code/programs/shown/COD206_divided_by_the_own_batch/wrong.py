# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier with a Keras loss object in a custom loop.

From: https://github.com/tensorflow/tensorflow/issues/58938
Shows: differs 2 devices tensorflow: the loss is twice that of one device
"""

import numpy as np
import tensorflow as tf


class Loop:
    """One training loop over all local devices."""

    def __init__(self, strategy, batch_size):
        self.strategy = strategy
        self.batch_size = batch_size
        with strategy.scope():
            self.model = tf.keras.Sequential(
                [tf.keras.Input((10,)), tf.keras.layers.Dense(4, kernel_initializer="zeros")]
            )
            self.optimizer = tf.keras.optimizers.SGD(0.5)
            self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def replica_step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = tf.reduce_sum(self.loss(y, logits)) / tf.cast(tf.shape(y)[0], tf.float32)  # BUG COD206
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function
    def step(self, x, y):
        losses = self.strategy.run(self.replica_step, args=(x, y))
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def fit(self, dataset):
        return [float(self.step(x, y)) for x, y in self.strategy.experimental_distribute_dataset(dataset)]


def make_dataset(batch_size):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(256, 10)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x[:, :4].argmax(axis=1))).batch(batch_size, drop_remainder=True)


if __name__ == "__main__":
    mirrored = tf.distribute.MirroredStrategy()
    global_batch = 16 * mirrored.num_replicas_in_sync
    losses = Loop(mirrored, global_batch).fit(make_dataset(global_batch))
    print(f"first {losses[0]:.4f}, last {losses[-1]:.4f}")
