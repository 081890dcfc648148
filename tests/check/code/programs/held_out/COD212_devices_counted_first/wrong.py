# SPDX-License-Identifier: Apache-2.0
"""Trains with fit() on several workers after counting the devices.

From: https://github.com/yahoo/TensorFlowOnSpark/pull/490
Shows: error 2 ranks tensorflow: collective ops must be configured at program startup
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf


def device_kind():
    devices = tf.config.list_logical_devices("GPU")  # BUG COD212
    return "GPU" if devices else "CPU"


def communication(kind):
    choice = tf.distribute.experimental.CommunicationImplementation
    return tf.distribute.experimental.CommunicationOptions(implementation=choice.NCCL if kind == "GPU" else choice.RING)


def dataset(batch):
    x = tf.random.stateless_normal([96, 3], seed=(9, 9))
    data = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1))).repeat().batch(batch)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.with_options(options)


def main():
    kind = device_kind()  # BUG COD212
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication(kind))
    batch = 8 * strategy.num_replicas_in_sync
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,), kernel_initializer="zeros")])
        model.compile("sgd", "mse")
    backup = tf.keras.callbacks.BackupAndRestore(os.path.join(os.environ.get("MODEL_DIR", "."), "backup"))
    model.fit(dataset(batch), epochs=1, steps_per_epoch=6, verbose=0, callbacks=[backup])
    print(kind, strategy.num_replicas_in_sync)


if __name__ == "__main__":
    main()
