# SPDX-License-Identifier: Apache-2.0
"""`fit` under ParameterServerStrategy: tf_keras with TF_USE_LEGACY_KERAS=1, Keras 3 without."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

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
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        tf.keras.utils.set_random_seed(7)
        layers = tf.keras.layers
        model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), layers.Dense(64, "relu"), layers.Dense(10)])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, metrics=["accuracy"])
    model.fit(dataset(options), epochs=options.epochs, steps_per_epoch=20, verbose=2)
    print("chief: training finished", flush=True)


def dataset(options: argparse.Namespace) -> tf.data.Dataset:
    """Batches of points from TFRecord files; the label is the largest of the first ten coordinates."""
    parts = {"x": tf.io.FixedLenFeature([WIDTH], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    files = sorted(str(path) for path in Path(options.data).glob("points-*.tfrecord"))

    def parse_example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, parts)
        return example["x"], example["y"]

    return tf.data.TFRecordDataset(files).map(parse_example).repeat().batch(32)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="folder of TFRecord files")
    parser.add_argument("--epochs", type=int, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    main()
