# SPDX-License-Identifier: Apache-2.0
"""Trains on two workers and evaluates after each epoch.

Shows: error 2 ranks tensorflow: the evaluation of one worker meets the training step of the other
"""

import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "worker", "index": 0})
is_chief = task["type"] == "chief" or (task["type"] == "worker" and task["index"] == 0)

with strategy.scope():
    weights = tf.Variable(tf.zeros([3]))


def batch(seed):
    x = tf.random.stateless_normal([32, 3], seed=seed)
    return x, tf.reduce_sum(x, axis=1)


def loss_fn(x, y):
    return tf.reduce_mean(tf.square(tf.linalg.matvec(x, weights) - y))


def train_replica(step):
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    x, y = batch(tf.stack([step, replica]))
    with tf.GradientTape() as tape:
        loss = loss_fn(x, y)
    return tape.gradient(loss, weights)


def eval_replica():
    return loss_fn(*batch((99, 99)))


@tf.function
def train_step(step):
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(train_replica, args=(step,)), axis=None)


@tf.function
def evaluate():
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(eval_replica), axis=None)


for epoch in range(3):
    for step in range(4):
        weights.assign_sub(0.1 * train_step(tf.constant(epoch * 4 + step)))
    if is_chief:
        print(f"epoch {epoch}: {float(evaluate()):.4f}")  # BUG COD001
