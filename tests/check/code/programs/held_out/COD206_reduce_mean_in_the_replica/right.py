# SPDX-License-Identifier: Apache-2.0
"""Trains a regression with a custom loop; the learning rate was tuned on one device."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH_SIZE = 32

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    optimizer = tf.keras.optimizers.SGD(0.05)


def compute_loss(labels, predictions):
    per_example = tf.reduce_mean(tf.square(labels - predictions), axis=-1)
    return tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH_SIZE)


def train_step(inputs):
    x, y = inputs
    with tf.GradientTape() as tape:
        loss = compute_loss(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def distributed_train_step(inputs):
    losses = strategy.run(train_step, args=(inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def make_dataset():
    x = np.random.default_rng(9).normal(size=(320, 4)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(GLOBAL_BATCH_SIZE)


def main():
    dataset = strategy.experimental_distribute_dataset(make_dataset())
    losses = [float(distributed_train_step(batch)) for batch in dataset]
    print(f"first {losses[0]:.3f}, last {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
