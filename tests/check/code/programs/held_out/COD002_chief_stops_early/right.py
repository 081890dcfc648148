# SPDX-License-Identifier: Apache-2.0
"""Trains on two workers until the loss is low enough."""

import tensorflow as tf

TARGET = 0.05
MAX_STEPS = 200


class Runner:
    def __init__(self):
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        resolver = self.strategy.cluster_resolver
        self.rank = resolver.task_id if resolver.task_type == "worker" else 0
        with self.strategy.scope():
            self.w = tf.Variable(tf.zeros([2]))

    def replica_step(self, step):
        x = tf.random.stateless_normal([64, 2], seed=tf.stack([step, 0]))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, self.w - 1.0)))
        return tape.gradient(loss, self.w), loss

    @tf.function
    def step(self, number):
        grads, losses = self.strategy.run(self.replica_step, args=(number,))
        mean = tf.distribute.ReduceOp.MEAN
        return self.strategy.reduce(mean, grads, axis=None), self.strategy.reduce(mean, losses, axis=None)

    def train(self):
        for number in range(MAX_STEPS):
            grad, loss = self.step(tf.constant(number))
            self.w.assign_sub(0.05 * grad)
            if float(loss) < TARGET:
                break
        return number


if __name__ == "__main__":
    runner = Runner()
    steps = runner.train()
    print(f"worker {runner.rank} stopped early: {steps < MAX_STEPS - 1}")
