# SPDX-License-Identifier: Apache-2.0
"""Trains on several workers with Keras 2; a function at the end exports the model.

From: https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras
Shows: nothing here (needs several workers)
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf


def export(model, chief, folder):
    if not chief:
        return
    model.save(folder)  # BUG COD218


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
        model.compile(optimizer="sgd", loss="mse")
    data = tf.data.Dataset.from_tensor_slices((tf.random.normal((64, 4)), tf.random.normal((64, 1))))
    backup = tf.keras.callbacks.BackupAndRestore("backup")
    model.fit(data.batch(16).repeat(), epochs=2, steps_per_epoch=4, callbacks=[backup])
    leading = strategy.cluster_resolver.task_id == 0
    export(model, leading, "/shared/exported")


if __name__ == "__main__":
    main()
