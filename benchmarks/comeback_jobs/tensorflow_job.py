# SPDX-License-Identifier: Apache-2.0
"""A two-layer Keras model in a custom loop under MultiWorkerMirroredStrategy."""

from __future__ import annotations

import json
import os
import sys
import time

import tensorflow as tf

folder, steps = sys.argv[1], int(sys.argv[2])
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input((64,)), layers.Dense(256, "relu"), layers.Dense(8)])
    seen = tf.Variable(0, dtype=tf.int64, trainable=False)
checkpoint = tf.train.Checkpoint(model=model, seen=seen)
newest = tf.train.latest_checkpoint(folder)
if newest:
    checkpoint.restore(newest)


@tf.function
def train_step(rows):
    def replica_step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(rows, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce("mean", gradients)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.value.assign_sub(0.01 * gradient)

    strategy.run(replica_step, args=(rows,))


with open(f"{folder}/steps-{rank}", "a", buffering=1) as told:
    for step in range(int(seen.numpy()), steps):
        if rank == 1 and os.path.exists(f"{folder}/sleep"):
            os.remove(f"{folder}/sleep")
            time.sleep(3600)
        train_step(tf.random.normal((32, 64)))
        told.write(f"{time.time()} {os.getpid()} {step}\n")
        if rank == 0 and step % 50 == 0:
            seen.assign(step + 1)
            checkpoint.save(f"{folder}/model")
            print(f"step {step}", flush=True)
        time.sleep(0.02)
