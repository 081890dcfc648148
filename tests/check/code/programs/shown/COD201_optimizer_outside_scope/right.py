# SPDX-License-Identifier: Apache-2.0
"""Trains a regression with a custom loop over all local devices."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync

with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    optimizer = keras.optimizers.Adam(learning_rate=0.05)
    optimizer.build(model.trainable_variables)
    squared = keras.losses.MeanSquaredError(reduction=None)


def make_dataset():
    x = np.random.default_rng(1).normal(size=(128, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL_BATCH)


def train_step(inputs):
    x, y = inputs
    with tf.GradientTape() as tape:
        per_example = squared(y, model(x, training=True))
        loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def distributed_train_step(inputs):
    losses = strategy.run(train_step, args=(inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def main():
    dataset = strategy.experimental_distribute_dataset(make_dataset())
    for epoch in range(3):
        total, steps = 0.0, 0
        for batch in dataset:
            total += distributed_train_step(batch)
            steps += 1
        print(f"epoch {epoch}: {float(total) / steps:.3f}")


if __name__ == "__main__":
    main()
