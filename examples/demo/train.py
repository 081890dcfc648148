# SPDX-License-Identifier: Apache-2.0
"""The demo's training script: an ordinary two-worker TensorFlow job that knows nothing about keepstep.

Each worker is started with its own TF_CONFIG, as on two machines. It saves a checkpoint every 20 steps and resumes from
the last one. With ``--crash-after N``, the native augmentation (native_op.py) of the last worker breaks after that many
batches.
"""

from __future__ import annotations

import argparse
import json
import os

import numpy as np
import tensorflow as tf

from examples.demo.native_op import Mixer

BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--crash-after", type=int, default=None)
    parser.add_argument("--checkpoints", default="checkpoints")
    options = parser.parse_args()

    config = json.loads(os.environ["TF_CONFIG"])
    worker, workers = config["task"]["index"], len(config["cluster"]["worker"])
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
    print(f"worker {worker}: {strategy.num_replicas_in_sync} replicas in sync", flush=True)

    with strategy.scope():
        tf.keras.utils.set_random_seed(7)
        layers = tf.keras.layers
        model = tf.keras.Sequential([tf.keras.Input((16,)), layers.Dense(32, "relu"), layers.Dense(10)])
        done = tf.Variable(0, trainable=False, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, done=done)
    last = tf.train.latest_checkpoint(options.checkpoints)
    if last is not None:
        checkpoint.restore(last).assert_existing_objects_matched()
        print(f"worker {worker}: resumed from {os.path.basename(last)}", flush=True)

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

    first = int(done.numpy()) + 1
    mixer = Mixer(forget_after=options.crash_after if worker == workers - 1 else None)
    for step in range(first, options.steps + 1):
        inputs, labels = batch(worker, step, mixer)
        loss = train_step(tf.constant(inputs), tf.constant(labels))
        if step % 20 == 0:
            print(f"worker {worker}: step {step} loss {float(loss):.4f}", flush=True)
            done.assign(step)
            # all workers save, as TensorFlow asks for; the first one's counts
            folder = options.checkpoints if worker == 0 else f"{options.checkpoints}-of-worker-{worker}"
            checkpoint.save(os.path.join(folder, "step"))
    print(f"worker {worker}: finished", flush=True)


def batch(worker: int, step: int, mixer: Mixer) -> tuple[np.ndarray, np.ndarray]:
    """This worker's share of a step: points whose label is their largest coordinate."""
    random = np.random.default_rng((worker, step))
    inputs = mixer.mix(random.normal(size=(BATCH, 16)).astype(np.float32))
    return inputs, inputs[:, :10].argmax(axis=1)


if __name__ == "__main__":
    main()
