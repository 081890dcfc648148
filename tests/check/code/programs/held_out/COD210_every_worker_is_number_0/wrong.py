# SPDX-License-Identifier: Apache-2.0
"""Trains on two workers; TF_CONFIG comes from the script.

From: https://github.com/tensorflow/tensorflow/issues/30551
Shows: error 2 ranks tensorflow: both workers listen on the same address
"""

import json
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": ["localhost:12345", "localhost:23456"]},  # BUG COD210
        "task": {"type": "worker", "index": 0},
    }
)

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
PER_WORKER_BATCH = 16
GLOBAL_BATCH = PER_WORKER_BATCH * strategy.num_replicas_in_sync


def make_dataset():
    x = tf.random.stateless_normal([256, 4], seed=(1, 2))
    y = tf.reduce_sum(x, axis=1, keepdims=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(GLOBAL_BATCH)
    return dataset.with_options(options)


def main():
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,), kernel_initializer="zeros")])
        model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
    backup = tf.keras.callbacks.BackupAndRestore(os.path.join(os.environ.get("MODEL_DIR", "."), "backup"))
    history = model.fit(make_dataset(), epochs=2, steps_per_epoch=4, verbose=0, callbacks=[backup])
    print(f"{strategy.num_replicas_in_sync} replicas, loss {history.history['loss'][-1]:.3f}")


if __name__ == "__main__":
    main()
