# SPDX-License-Identifier: Apache-2.0
"""`fit` under MultiWorkerMirroredStrategy: tf_keras with TF_USE_LEGACY_KERAS=1, Keras 3 without."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import faults as fault
import tensorflow as tf

WIDTH = 32


class AtStep(tf.keras.callbacks.Callback):
    """Calls the lab's hook at each batch."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank, self.step = rank, 0

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        fault.at(self.step, self.rank)
        self.step += 1


def main() -> None:
    options = parse()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    print(f"worker {rank}: {strategy.num_replicas_in_sync} replicas, tensorflow {tf.__version__}", flush=True)
    with strategy.scope():
        model = build()
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, metrics=["accuracy"])
    callbacks = [AtStep(rank)]
    if options.early_stop:
        callbacks.append(tf.keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.2, verbose=1))
    if options.save:
        callbacks.append(tf.keras.callbacks.BackupAndRestore(options.save))
    model.fit(dataset(options, rank), epochs=options.epochs, steps_per_epoch=20, verbose=2, callbacks=callbacks)
    print(f"worker {rank}: finished", flush=True)


def build(width: int = 64) -> tf.keras.Model:
    """The classifier."""
    tf.keras.utils.set_random_seed(7)
    layers = tf.keras.layers
    return tf.keras.Sequential([tf.keras.Input((WIDTH,)), layers.Dense(width, "relu"), layers.Dense(10)])


def dataset(options: argparse.Namespace, rank: int) -> tf.data.Dataset:
    """Batches of points from TFRecord files; the label is the largest of the first ten coordinates."""
    parts = {"x": tf.io.FixedLenFeature([WIDTH], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    files = sorted(str(path) for path in Path(options.data).glob("points-*.tfrecord"))

    def parse_example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, parts)
        return example["x"], example["y"]

    data = tf.data.TFRecordDataset(files).map(parse_example)
    data = fault.change("data", data if options.once else data.repeat(), 0, rank).batch(32)
    policy = tf.data.Options()
    policy.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[options.shard]
    return data.with_options(policy)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="folder of TFRecord files")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--shard", default="AUTO", help="the auto-shard policy")
    parser.add_argument("--once", action="store_true", help="read the data once only")
    parser.add_argument("--early-stop", action="store_true")
    parser.add_argument("--save", help="folder of the backups to resume from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
