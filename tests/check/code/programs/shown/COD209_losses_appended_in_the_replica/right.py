# SPDX-License-Identifier: Apache-2.0
"""Trains with strategy.run and keeps the losses in a list."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
BATCH = 10 * strategy.num_replicas_in_sync
losses = []

with strategy.scope():
    net = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.SGD(0.01)


def replica_step(x, y):
    with tf.GradientTape() as tape:
        error = tf.reduce_mean(tf.square(net(x) - y), axis=1)
        loss = tf.nn.compute_average_loss(error, global_batch_size=BATCH)
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


@tf.function
def train_step(x, y):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(x, y)), axis=None)


def data():
    x = np.random.default_rng(3).normal(size=(200, 3)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(BATCH, drop_remainder=True)


for x, y in strategy.experimental_distribute_dataset(data()):
    losses.append(train_step(x, y))

print(len(losses), "losses for", 200 // BATCH, "steps")
