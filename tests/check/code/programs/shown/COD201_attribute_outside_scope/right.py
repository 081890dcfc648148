# SPDX-License-Identifier: Apache-2.0
"""Trains a two-layer network and measures its accuracy in the replicas."""

import argparse

import numpy as np
import tensorflow as tf


class Trainer:
    def __init__(self, args):
        self.strategy = tf.distribute.MirroredStrategy()
        self.batch = args.batch * self.strategy.num_replicas_in_sync
        with self.strategy.scope():
            self.model = self.make_model(args.hidden)
            self.accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
            self.optimizer = tf.keras.optimizers.SGD(args.rate)

    def make_model(self, hidden):
        return tf.keras.Sequential(
            [tf.keras.Input((6,)), tf.keras.layers.Dense(hidden, "tanh"), tf.keras.layers.Dense(2)]
        )

    def dataset(self):
        x = np.random.default_rng(2).normal(size=(192, 6)).astype("float32")
        y = (x[:, 0] > 0).astype("int32")
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(self.batch, drop_remainder=True)
        return self.strategy.experimental_distribute_dataset(dataset)

    def replica_step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=self.batch)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.accuracy.update_state(y, logits)

    @tf.function
    def step(self, x, y):
        self.strategy.run(self.replica_step, args=(x, y))

    def fit(self, epochs):
        for _ in range(epochs):
            for x, y in self.dataset():
                self.step(x, y)
        return int(self.accuracy.count.numpy())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.2)
    trainer = Trainer(parser.parse_args())
    print("examples counted:", trainer.fit(2))
