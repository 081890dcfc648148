# SPDX-License-Identifier: Apache-2.0
"""Trains a segmentation head with Keras 2 losses in a custom loop."""

import numpy as np
import tensorflow as tf
import tf_keras

bce = tf_keras.losses.BinaryCrossentropy(from_logits=True, reduction=tf_keras.losses.Reduction.NONE)


def build(strategy):
    with strategy.scope():
        model = tf_keras.Sequential(
            [
                tf_keras.layers.Conv2D(4, 3, padding="same", activation="relu", input_shape=(8, 8, 1)),
                tf_keras.layers.Conv2D(1, 1),
            ]
        )
        optimizer = tf_keras.optimizers.Adam(0.01)
    return model, optimizer


def masks(count):
    x = np.random.default_rng(1).uniform(size=(count, 8, 8, 1)).astype("float32")
    return x, (x > 0.5).astype("float32")


def main():
    strategy = tf.distribute.MirroredStrategy()
    model, optimizer = build(strategy)
    global_batch = 8 * strategy.num_replicas_in_sync

    def step_fn(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            per_image = tf.reduce_mean(bce(y, logits), axis=(1, 2))
            loss = tf.nn.compute_average_loss(per_image, global_batch_size=global_batch)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    @tf.function
    def train_step(x, y):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step_fn, args=(x, y)), axis=None)

    dataset = tf.data.Dataset.from_tensor_slices(masks(64)).batch(global_batch, drop_remainder=True)
    for x, y in strategy.experimental_distribute_dataset(dataset):
        loss = train_step(x, y)
    print("steps", int(optimizer.iterations.numpy()), "finite", bool(np.isfinite(loss)))


if __name__ == "__main__":
    main()
