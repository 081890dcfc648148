# SPDX-License-Identifier: Apache-2.0
"""One worker of a small training, started by the guard's TensorFlow tests. ``--wrong KIND --at RANK`` breaks it."""

from __future__ import annotations

import argparse
import hashlib
import json
import os

import numpy as np
import tensorflow as tf

WIDTH = 8


def main() -> None:
    options = parse()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"] if "TF_CONFIG" in os.environ else 0
    odd = options.wrong if options.at == rank else None
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if odd == "alone":
        strategy = tf.distribute.get_strategy()
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    with strategy.scope():
        tf.random.set_seed(7)
        generator = np.random.default_rng(7)
        dtype = tf.float64 if odd == "dtype" else tf.float32
        width = WIDTH + 2 if odd == "width" else WIDTH
        weights = [variable(generator, (WIDTH, width), dtype, "hidden"), variable(generator, (width, 3), dtype, "out")]
        if odd == "variable":
            weights.append(variable(generator, (5,), dtype, "extra"))
        weights += [variable(generator, (4,), dtype, f"more_{number}") for number in range(options.variables)]

    def replica(x: tf.Tensor, y: tf.Tensor, rate: float) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.cast(x, weights[0].dtype) @ weights[0])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, hidden @ weights[1]))
        gradients = tape.gradient(loss, weights[:2])
        context = tf.distribute.get_replica_context()
        if odd == "op":
            context.all_gather(tf.reshape(loss, [1]), axis=0)
        gradients = context.all_reduce("mean", gradients)
        for weight, gradient in zip(weights, gradients, strict=False):
            weight.assign_sub(tf.cast(rate, gradient.dtype) * gradient)
        return tf.cast(loss, tf.float32)

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor, rate: float) -> tf.Tensor:
        return strategy.reduce("mean", strategy.run(replica, args=(x, y, rate)), axis=None)

    @tf.function
    def evaluate(x: tf.Tensor) -> tf.Tensor:
        total = strategy.run(lambda batch: tf.reduce_sum(tf.cast(batch, tf.float32)), args=(x,))
        return strategy.reduce("sum", total, axis=None)

    @tf.function
    def only_here(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.relu(tf.cast(x, weights[0].dtype) @ weights[0].read_value()))

    step, losses = 0, []
    for epoch in range(options.epochs):
        for x, y in dataset(rank, odd, epoch, options):
            if odd == "ragged_and_retraced":
                loss = train_step(x[:-2], y[:-2], 0.1 / (1 + step))
            else:
                loss = train_step(x, y, 0.1)
            losses.append(float(loss))
            step += 1
            if odd == "evaluates" and step == 5:
                evaluate(x)
            if rank == 0 and step % 4 == 0:
                only_here(x)
        if options.wrong != "evaluates":
            evaluate(tf.ones([4]))
    if rank == 0:
        tf.train.Checkpoint(weights=weights).write(os.path.join(os.getcwd(), "saved"))
    finish(rank, step, losses, weights)


def finish(rank: int, step: int, losses: list[float], weights: list[tf.Variable]) -> None:
    digest = hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in weights) + repr(losses).encode())
    print(f"rank {rank} finished after {step} steps: {digest.hexdigest()}", flush=True)


def variable(generator: np.random.Generator, shape: tuple[int, ...], dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(lambda: tf.constant(generator.normal(size=shape), dtype), name=name, trainable=True)


def dataset(rank: int, odd: str | None, epoch: int, options: argparse.Namespace) -> tf.data.Dataset:
    rows = options.rows if odd != "uneven" else options.rows - 16
    generator = np.random.default_rng(100 * epoch + (0 if options.wrong == "same data" else rank))
    x = generator.normal(size=(rows, WIDTH)).astype("float64" if odd == "float64" else "float32")
    y = generator.integers(0, 3, rows)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wrong")
    parser.add_argument("--at", type=int, default=1)
    parser.add_argument("--rows", type=int, default=44)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--variables", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
