# SPDX-License-Identifier: Apache-2.0
"""Trains a convolution-free image classifier with a custom loop."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
PER_REPLICA = 8
BATCH = PER_REPLICA * strategy.num_replicas_in_sync


def images(count):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(count, 8, 8)).astype("float32")
    return x, (x.mean(axis=(1, 2)) > 0.5).astype("int32")


with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((8, 8)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(2)]
    )
    optimizer = tf.keras.optimizers.SGD(0.05)


def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


@tf.function
def distributed_step(x, y):
    per_replica = strategy.run(train_step, args=(x, y))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)


dataset = tf.data.Dataset.from_tensor_slices(images(128)).shuffle(128, seed=3).batch(BATCH, drop_remainder=True)
dataset = strategy.experimental_distribute_dataset(dataset)
for epoch in range(2):
    for x, y in dataset:
        loss = distributed_step(x, y)
print("trained", loss.shape)
