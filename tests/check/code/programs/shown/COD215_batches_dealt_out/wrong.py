# SPDX-License-Identifier: Apache-2.0
"""Trains on two workers; each takes its part of the rows by its index.

From: https://github.com/yahoo/TensorFlowOnSpark/issues/227
Shows: error 2 ranks tensorflow: there are five batches, and the second worker has none left in the last step
"""

import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
config = json.loads(os.environ["TF_CONFIG"])
WORKERS = len(config["cluster"]["worker"])
INDEX = config["task"]["index"]
ROWS, PER_WORKER = 80, 16
STEPS = -(-ROWS // (PER_WORKER * WORKERS))


def local_dataset():
    x = tf.random.stateless_normal([ROWS, 3], seed=(1, 1))
    dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1)))
    return dataset.batch(PER_WORKER).shard(WORKERS, INDEX)  # BUG COD215


with strategy.scope():
    w = tf.Variable(tf.zeros([3]))


def replica_step(x, y):
    with tf.GradientTape() as tape:
        error = tf.square(tf.linalg.matvec(x, w) - y)
        loss = tf.reduce_sum(error) / (PER_WORKER * WORKERS)
    return tape.gradient(loss, w), loss


@tf.function(reduce_retracing=True)
def step(x, y):
    grads, losses = strategy.run(replica_step, args=(x, y))
    add = tf.distribute.ReduceOp.SUM
    return strategy.reduce(add, grads, axis=None), strategy.reduce(add, losses, axis=None)


rows = iter(local_dataset())
for _ in range(STEPS):
    grad, loss = step(*next(rows))
    w.assign_sub(0.2 * grad)
print(f"{STEPS} steps, loss {float(loss):.4f}")
