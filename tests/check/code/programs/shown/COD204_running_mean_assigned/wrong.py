# SPDX-License-Identifier: Apache-2.0
"""Trains a regression and keeps a running mean of the inputs in the replicas.

From: https://github.com/tensorflow/tensorflow/issues/37834
Shows: differs 2 devices tensorflow: the replicas' copies of the mean drift apart
"""

import numpy as np
import tensorflow as tf

GLOBAL_BATCH = 16


class Normalised(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.mean = tf.Variable(tf.zeros([4]), trainable=False)
        self.dense = tf.keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x - self.mean)

    def observe(self, x):
        new = 0.9 * self.mean + 0.1 * tf.reduce_mean(x, axis=0)
        self.mean.assign(new)  # BUG COD204


def run(strategy, model, optimizer, dataset):
    def replica_step(x, y):
        model.observe(x)
        with tf.GradientTape() as tape:
            errors = tf.reduce_mean(tf.square(model(x) - y), axis=1)
            loss = tf.nn.compute_average_loss(errors, global_batch_size=GLOBAL_BATCH)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    @tf.function
    def step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    for x, y in dataset:
        loss = step(x, y)
    return loss


def main():
    strategy = tf.distribute.MirroredStrategy()
    x = np.random.default_rng(0).normal(1.0, size=(128, 4)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(GLOBAL_BATCH, drop_remainder=True)
    with strategy.scope():
        model = Normalised()
        model(tf.zeros([1, 4]))
        optimizer = tf.keras.optimizers.SGD(0.05)
    run(strategy, model, optimizer, strategy.experimental_distribute_dataset(dataset))
    print("mean", np.round(model.mean.numpy(), 2).tolist())


if __name__ == "__main__":
    main()
