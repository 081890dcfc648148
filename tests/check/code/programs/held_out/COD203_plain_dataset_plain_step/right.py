# SPDX-License-Identifier: Apache-2.0
"""Trains a regression; the strategy is there, but the loop is that of one device."""

import argparse

import numpy as np
import tensorflow as tf


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32, help="over all devices")
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args()


class Linear(tf.Module):
    def __init__(self, inputs):
        super().__init__()
        self.w = tf.Variable(tf.zeros([inputs]), aggregation=tf.VariableAggregation.MEAN)
        self.calls = tf.Variable(0, aggregation=tf.VariableAggregation.SUM)

    def __call__(self, x):
        return tf.linalg.matvec(x, self.w)


def make_dataset(batch_size):
    x = np.random.default_rng(7).normal(size=(256, 3)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1))).batch(batch_size, drop_remainder=True)


def main():
    args = parse()
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = Linear(3)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(x) - y)) / args.batch_size
        grad = tape.gradient(loss, model.w)
        grad = tf.distribute.get_replica_context().all_reduce("SUM", grad)
        model.w.assign_sub(0.1 * grad)
        model.calls.assign_add(tf.ones([], tf.int32))
        return loss

    @tf.function
    def train_step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce("SUM", losses, axis=None)

    dataset = make_dataset(args.batch_size)
    dataset = strategy.experimental_distribute_dataset(dataset)
    for _ in range(args.epochs):
        for x, y in dataset:
            loss = train_step(x, y)
    print(f"loss {float(loss):.3f} after {int(model.calls.numpy())} replica steps")


if __name__ == "__main__":
    main()
