# SPDX-License-Identifier: Apache-2.0
"""Trains a network with batch normalisation on two workers and saves it.

From: https://github.com/ray-project/raydp/pull/447
Shows: error 2 ranks tensorflow: the chief waits in a collective until the other worker has ended
"""

import json
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf

EPOCHS = 1


def is_chief():
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return task["type"] == "chief" or task["index"] == 0


def model_path(folder):
    name = "model" if is_chief() else "worker-copy"
    return os.path.join(folder, name)


def dataset(batch):
    x = tf.random.stateless_normal([128, 6], seed=(7, 8))
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(batch)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.with_options(options)


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential([layers.Dense(8, input_shape=(6,)), layers.BatchNormalization(), layers.Dense(1)])
        model.compile("sgd", "mse")
    folder = os.environ.get("MODEL_DIR", ".")
    backup = tf.keras.callbacks.BackupAndRestore(os.path.join(folder, "backup"))
    batch = 8 * strategy.num_replicas_in_sync
    model.fit(dataset(batch), epochs=EPOCHS, steps_per_epoch=4, verbose=0, callbacks=[backup])
    if is_chief():
        model.save(model_path(folder), save_format="tf")  # BUG COD218
    print("done", is_chief())


if __name__ == "__main__":
    main()
