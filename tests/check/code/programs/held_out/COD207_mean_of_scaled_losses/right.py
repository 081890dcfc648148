# SPDX-License-Identifier: Apache-2.0
"""Trains with a loss that is divided by the global batch, and reports it."""

import argparse

import numpy as np
import tensorflow as tf


def make_step(strategy, model, optimizer, global_batch):
    def step_fn(features, labels):
        with tf.GradientTape() as tape:
            logits = model(features)
            cross_entropy = tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=labels)
            loss = tf.reduce_sum(cross_entropy) * (1.0 / global_batch)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(list(zip(grads, model.trainable_variables)))
        return loss

    @tf.function
    def train_step(features, labels):
        per_replica = strategy.run(step_fn, args=(features, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    return train_step


def make_dataset(global_batch):
    rng = np.random.default_rng(12)
    x = rng.normal(size=(192, 5)).astype("float32")
    y = tf.one_hot(x[:, :3].argmax(axis=1), 3)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(global_batch, drop_remainder=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--per-replica", type=int, default=8)
    args = parser.parse_args()
    strategy = tf.distribute.MirroredStrategy()
    global_batch = args.per_replica * strategy.num_replicas_in_sync
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(3, kernel_initializer="zeros")])
        optimizer = tf.keras.optimizers.SGD(0.1)
    train_step = make_step(strategy, model, optimizer, global_batch)
    losses = []
    for features, labels in strategy.experimental_distribute_dataset(make_dataset(global_batch)):
        losses.append(float(train_step(features, labels)))
    print(f"first loss {losses[0]:.4f} (log 3 is {np.log(3):.4f})")


if __name__ == "__main__":
    main()
