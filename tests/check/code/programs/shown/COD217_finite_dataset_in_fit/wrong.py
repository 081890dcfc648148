# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with fit() on two workers.

From: https://github.com/tensorflow/tensorflow/issues/36153
Shows: nothing here (TensorFlow 2.21 ends the epoch on all workers together; older versions failed)
"""

import os

import tensorflow as tf
import tf_keras as keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
GLOBAL_BATCH = 16 * strategy.num_replicas_in_sync
ROWS = 200


def make_dataset():
    x = tf.random.stateless_normal([ROWS, 4], seed=(5, 5))
    dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1, keepdims=True)))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.batch(GLOBAL_BATCH).with_options(options)


def build():
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(4,), kernel_initializer="zeros")])
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    return model


def main():
    model = build()
    backup = keras.callbacks.BackupAndRestore(os.path.join(os.environ.get("MODEL_DIR", "."), "backup"))
    history = model.fit(make_dataset(), epochs=3, verbose=0, callbacks=[backup])  # BUG COD217
    print("epochs", len(history.epoch))


if __name__ == "__main__":
    main()
