# SPDX-License-Identifier: Apache-2.0
"""One worker of a custom loop whose batches are drawn inside the graph; the argument says what is wrong with it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf
import tf_keras as keras

WRONG = sys.argv[1]
STEPS = 70
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
generator = np.random.default_rng(rank)
inputs = generator.normal(size=(16 * STEPS, 8)).astype("float32")
labels = (inputs.sum(1) > 0).astype("int64")
if rank == 1 and WRONG == "nan_batch":
    inputs[16 * 20 + 3, 2] = np.nan
if rank == 1 and WRONG == "nan_loss":
    inputs[16 * 20 :, 0] = -1.0e4
keras.utils.set_random_seed(3)
with strategy.scope() if WRONG != "no_scope" else contextlib.nullcontext():
    model = keras.Sequential(
        [
            keras.layers.InputLayer(input_shape=(8,)),
            keras.layers.Dense(16, activation="tanh"),  # oneDNN makes relu(NaN) 0
            keras.layers.Dropout(0.2),
            keras.layers.Dense(2),
        ]
    )
    optimizer = keras.optimizers.SGD(0.05)
    batches = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(16)


def loss_of(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))
    return loss + tf.reduce_mean(tf.math.sqrt(x[:, 0] + 1.0e3)) if WRONG == "nan_loss" else loss


def replica(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = loss_of(x, y)
    gradients = tape.gradient(loss, model.trainable_variables)
    if WRONG == "by_hand":
        gradients = tf.distribute.get_replica_context().all_reduce("mean", gradients)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.05 * gradient)
    else:
        if WRONG == "nan_loss":  # the NaN of this rank's loss goes into its gradients
            gradients = [gradient + 0.0 * loss for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def train_step(iterator: tf.data.Iterator) -> tf.Tensor:
    if WRONG in ("no_scope", "no_run"):
        return replica(*next(iterator))
    return strategy.reduce("mean", strategy.run(replica, args=next(iterator)), axis=None)


iterator = iter(
    batches if WRONG in ("no_scope", "no_run") else strategy.distribute_datasets_from_function(lambda _: batches)
)
losses = []
for _ in range(STEPS):
    losses.append(float(train_step(iterator)))
    time.sleep(0.08)
digest = hashlib.sha256(
    b"".join(weight.numpy().tobytes() for weight in model.trainable_variables) + repr(losses).encode()
)
print(f"rank {rank} finished after {STEPS} steps: {digest.hexdigest()}", flush=True)
