# SPDX-License-Identifier: Apache-2.0
"""Trains a ranking model; the loss is averaged over the global batch.

Shows: differs 2 devices tensorflow: the gradients are half as large as on one device
"""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
REPLICAS = strategy.num_replicas_in_sync
BATCH = 24

with strategy.scope():
    scorer = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    sgd = tf.keras.optimizers.SGD(0.5)


def pair_loss(better, worse):
    margin = tf.squeeze(scorer(better) - scorer(worse), axis=1)
    per_pair = tf.nn.softplus(-margin)
    loss = tf.nn.compute_average_loss(per_pair, global_batch_size=BATCH)
    return loss / REPLICAS  # BUG COD207


def replica_fn(better, worse):
    with tf.GradientTape() as tape:
        loss = pair_loss(better, worse)
    grads = tape.gradient(loss, scorer.trainable_variables)
    sgd.apply_gradients(zip(grads, scorer.trainable_variables))
    return loss


@tf.function
def train_step(better, worse):
    losses = strategy.run(replica_fn, args=(better, worse))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def pairs(count):
    rng = np.random.default_rng(6)
    worse = rng.normal(size=(count, 6)).astype("float32")
    return worse + rng.uniform(size=(count, 6)).astype("float32"), worse


dataset = tf.data.Dataset.from_tensor_slices(pairs(240)).batch(BATCH, drop_remainder=True)
history = []
for better, worse in strategy.experimental_distribute_dataset(dataset):
    history.append(float(train_step(better, worse)))
print(f"first {history[0]:.4f}, last {history[-1]:.4f} on {REPLICAS} replicas")
