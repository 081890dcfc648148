# SPDX-License-Identifier: Apache-2.0
"""Trains a model whose train_step prints the norm of the gradients.

Shows: error 2 devices tensorflow: a symbolic tensor has no numpy()
"""

import numpy as np
import tensorflow as tf


class Watched:
    """A model with its optimizer, and the largest gradient norm seen."""

    def __init__(self, strategy, batch):
        self.strategy, self.batch = strategy, batch
        self.largest = 0.0
        with strategy.scope():
            self.model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(2)])
            self.optimizer = tf.keras.optimizers.SGD(0.1)

    def _replica(self, x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=self.model(x))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=self.batch)
        grads = tape.gradient(loss, self.model.trainable_variables)
        norm = tf.linalg.global_norm(grads)
        self.largest = max(self.largest, norm.numpy())  # BUG COD209
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return norm

    @tf.function
    def step(self, x, y):
        norms = self.strategy.run(self._replica, args=(x, y))
        return self.strategy.reduce(tf.distribute.ReduceOp.MEAN, norms, axis=None)

    def fit(self, dataset):
        for x, y in self.strategy.experimental_distribute_dataset(dataset):
            self.step(x, y)


def main():
    strategy = tf.distribute.MirroredStrategy()
    batch = 8 * strategy.num_replicas_in_sync
    rng = np.random.default_rng(30)
    x = rng.normal(size=(96, 5)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, rng.integers(0, 2, 96))).batch(batch, drop_remainder=True)
    watched = Watched(strategy, batch)
    watched.fit(dataset)
    print("largest norm is positive:", watched.largest > 0)


if __name__ == "__main__":
    main()
