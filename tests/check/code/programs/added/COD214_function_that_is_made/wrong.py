# SPDX-License-Identifier: Apache-2.0
"""Fits a line, with an input function that another one makes from the settings.

From: https://github.com/tensorflow/tensorflow/issues/32076
Shows: nothing here (needs several devices)
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass
class Plan:
    global_batch: int = 32
    steps: int = 4


def reader(plan):
    def rows(context):
        count = plan.global_batch  # BUG COD214
        x = tf.random.stateless_normal([128, 3], seed=(1, 1))
        data = tf.data.Dataset.from_tensor_slices(x).repeat()
        return data.batch(count)

    return rows


def main():
    plan = Plan()
    strategy = tf.distribute.MirroredStrategy()
    batches = iter(strategy.distribute_datasets_from_function(reader(plan)))
    with strategy.scope():
        weight = tf.Variable(tf.zeros([3, 1]))
        rule = tf.keras.optimizers.SGD(0.1)

    def learn(x):
        with tf.GradientTape() as tape:
            each = tf.reduce_sum(tf.square(x @ weight - 1.0), axis=1)
            loss = tf.nn.compute_average_loss(each, global_batch_size=plan.global_batch)
        rule.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    @tf.function
    def step(x):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(learn, args=(x,)), axis=None)

    for _ in range(plan.steps):
        print(float(step(next(batches))))


if __name__ == "__main__":
    main()
