# SPDX-License-Identifier: Apache-2.0
"""Trains on the workers that TF_CONFIG names.

From: https://github.com/tensorflow/tensorflow/issues/34568
Shows: error 2 ranks tensorflow: collective ops must be configured at program startup
"""

import os

import tensorflow as tf

SHIFT = tf.constant([0.5, -0.5])  # BUG COD212


def synthetic(seed):
    x = tf.random.stateless_normal([64, 2], seed=(seed, 0))
    return x, tf.reduce_sum(x + SHIFT, axis=1)


def train(strategy, steps):
    with strategy.scope():
        weights = tf.Variable(tf.zeros([2]), name="weights")

    def replica_step(seed):
        x, y = synthetic(seed)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, weights) - y))
        return tape.gradient(loss, weights), loss

    @tf.function
    def step(seed):
        grads, losses = strategy.run(replica_step, args=(seed,))
        mean = tf.distribute.ReduceOp.MEAN
        return strategy.reduce(mean, grads, axis=None), strategy.reduce(mean, losses, axis=None)

    for number in range(steps):
        grad, loss = step(tf.constant(number))
        weights.assign_sub(0.2 * grad)
    return float(loss)


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    loss = train(strategy, steps=int(os.environ.get("STEPS", "10")))
    print(f"{strategy.num_replicas_in_sync} replicas, loss {loss:.3f}")


if __name__ == "__main__":
    main()
