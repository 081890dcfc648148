# SPDX-License-Identifier: Apache-2.0
"""A Keras 3 model under ParameterServerStrategy with a ClusterCoordinator: chief, workers and ps by TF_CONFIG."""

from __future__ import annotations

import argparse
import os

import faults as fault
import tensorflow as tf

WIDTH = 32


def main() -> None:
    options = parse()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        print(f"{resolver.task_type} {resolver.task_id} is serving", flush=True)
        server.join()
    else:
        coordinate(options, resolver)


def coordinate(options: argparse.Namespace, resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """What the chief does: hand out steps, wait for them."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = build()
        steps = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, seen=steps)
    if options.resume:
        checkpoint.restore(options.resume).assert_consumed()
        print(f"chief: resumed from {options.resume} at step {int(steps)}", flush=True)

    @tf.function
    def train_step(batches: tf.data.Iterator) -> tf.Tensor:
        def replica_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                logits = model(inputs, training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            gradients = tape.gradient(loss, model.trainable_variables)
            for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
                variable.value.assign_sub(0.1 * gradient)
            return loss

        loss = strategy.run(replica_step, args=next(batches))
        steps.assign_add(1)
        return loss

    batches = iter(coordinator.create_per_worker_dataset(lambda: dataset(options)))
    first = int(steps)
    while int(steps) - first < options.steps:
        fault.at(int(steps), 0)
        for _ in range(20):
            loss = coordinator.schedule(train_step, args=(batches,))
        coordinator.join()
        print(f"chief: step {int(steps)} loss {float(loss.fetch()):.4f}", flush=True)
        if options.save and int(steps) % 80 == 0:
            print(f"chief: saved {checkpoint.save(options.save)}", flush=True)
    print("chief: training finished", flush=True)


def build(width: int = 64) -> tf.keras.Model:
    """The classifier."""
    tf.keras.utils.set_random_seed(7)
    layers = tf.keras.layers
    return tf.keras.Sequential([tf.keras.Input((WIDTH,)), layers.Dense(width, "relu"), layers.Dense(10)])


def dataset(options: argparse.Namespace) -> tf.data.Dataset:
    """Batches of points from TFRecord files; each worker reads them all, in an order of its own."""
    parts = {"x": tf.io.FixedLenFeature([WIDTH], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    files = [f"{options.data}/points-{index:02d}.tfrecord" for index in range(options.files)]

    def parse_example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, parts)
        return example["x"], example["y"]

    data = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat()
    return data.interleave(tf.data.TFRecordDataset).map(parse_example).batch(32)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="folder of TFRecord files")
    parser.add_argument("--files", type=int, default=3, help="how many of them")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save", help="prefix of the checkpoints to write")
    parser.add_argument("--resume", help="the checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
