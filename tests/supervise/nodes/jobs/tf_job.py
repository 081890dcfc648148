# SPDX-License-Identifier: Apache-2.0
"""What two ranks ran for the attempts in `attempts`, under `keepstep run -n 2 --max-attempts 1`."""

import json
import os
import signal
import time

import numpy as np
import tensorflow as tf

fault = os.environ.get("FAULT", "healthy")
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.build((None, 8))
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)


def replica(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - 1.0) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    return loss


@tf.function
def step(x):
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(replica, args=(x,)), axis=None)


@tf.function
def other(x):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda y: tf.reduce_max(y), args=(x,)), axis=None)


for n in range(int(os.environ.get("STEPS", "60"))):
    mine = np.random.rand(16, 8).astype(np.float32)
    if rank == 1 and n == 30:
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "asleep":
            time.sleep(3600)
        if fault == "mismatch":
            other(tf.constant(mine))
    if fault == "nan" and rank == 1 and n >= 30:
        mine[:] = np.nan
    loss = step(tf.constant(mine))
    if n % 5 == 0:
        print(f"step {n} loss {float(loss):.4f}", flush=True)
    time.sleep(0.05)
print("finished", flush=True)
