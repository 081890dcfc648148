# SPDX-License-Identifier: Apache-2.0
"""The demo's training script: an ordinary two-worker TensorFlow job that knows nothing of keepstep.

Each worker is started with its own TF_CONFIG, as on two machines. With ``--crash-at N`` the worker's
native augmentation (native_op.py) breaks at that batch.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from examples.demo.native_op import Mixer

BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--crash-at", type=int, default=None)
    options = parser.parse_args()

    worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
    print(f"worker {worker}: {strategy.num_replicas_in_sync} replicas in sync", flush=True)

    with strategy.scope():
        tf.keras.utils.set_random_seed(7)
        layers = tf.keras.layers
        model = tf.keras.Sequential([tf.keras.Input((16,)), layers.Dense(32, "relu"), layers.Dense(10)])

    def replica_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce("mean", gradients)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.value.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def train_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("mean", strategy.run(replica_step, args=(inputs, labels)), axis=None)

    for step, (inputs, labels) in enumerate(batches(worker, options.steps, options.crash_at), start=1):
        loss = train_step(tf.constant(inputs), tf.constant(labels))
        if step % 20 == 0:
            print(f"worker {worker}: step {step} loss {float(loss):.4f}", flush=True)
    print(f"worker {worker}: finished", flush=True)


def batches(worker: int, steps: int, crash_at: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """This worker's share: points whose label is their largest coordinate."""
    random = np.random.default_rng(worker)
    mixer = Mixer(forget_after=crash_at)
    for _ in range(steps):
        inputs = mixer.mix(random.normal(size=(BATCH, 16)).astype(np.float32))
        yield inputs, inputs[:, :10].argmax(axis=1)


if __name__ == "__main__":
    main()
