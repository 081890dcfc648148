# SPDX-License-Identifier: Apache-2.0
"""Keras 3 `fit` under MirroredStrategy: one process, several virtual devices."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import faults as fault
import tensorflow as tf

WIDTH = 32


class AtStep(tf.keras.callbacks.Callback):
    """Calls the lab's hook at each batch."""

    step = 0

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        fault.at(self.step, 0)
        self.step += 1


def main() -> None:
    options = parse()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    virtual = [tf.config.LogicalDeviceConfiguration()] * options.devices
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], virtual)
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(options.devices)])
    print(f"{strategy.num_replicas_in_sync} replicas, tensorflow {tf.__version__}", flush=True)
    with strategy.scope():
        model = build()
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.SGD(options.rate), loss, metrics=["accuracy"])
    if options.resume:
        model.load_weights(options.resume)
        print(f"resumed from {options.resume}", flush=True)
    callbacks = [AtStep()]
    if options.save:
        callbacks.append(tf.keras.callbacks.ModelCheckpoint(options.save, save_weights_only=True, verbose=1))
    model.fit(dataset(options), epochs=options.epochs, verbose=2, callbacks=callbacks)
    print("training finished", flush=True)


def build(width: int = 64) -> tf.keras.Model:
    """The classifier."""
    tf.keras.utils.set_random_seed(7)
    layers = tf.keras.layers
    return tf.keras.Sequential([tf.keras.Input((WIDTH,)), layers.Dense(width, "relu"), layers.Dense(10)])


def dataset(options: argparse.Namespace) -> tf.data.Dataset:
    """Batches of points from TFRecord files; the label is the largest of the first ten coordinates."""
    parts = {"x": tf.io.FixedLenFeature([WIDTH], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    files = sorted(str(path) for path in Path(options.data).glob("points-*.tfrecord"))

    def parse_example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, parts)
        return example["x"], example["y"]

    data = tf.data.TFRecordDataset(files).map(parse_example)
    return fault.change("data", data, 0, 0).batch(32)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="folder of TFRecord files")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--save", help="path of the .weights.h5 file to write")
    parser.add_argument("--resume", help="the .weights.h5 file to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
