# SPDX-License-Identifier: Apache-2.0
"""Trains a wide network on the cluster of TF_CONFIG.

From: https://github.com/keras-team/keras/issues/20585
Shows: error 2 ranks tensorflow: Keras 3 cannot read the variables of other workers
"""

import argparse
import os

import keras
import tensorflow as tf
from keras import layers


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--width", type=int, default=64)
    return parser.parse_args()


class Job:
    def __init__(self, args):
        self.args = args
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        self.batch = 8 * self.strategy.num_replicas_in_sync

    def inputs(self):
        x = tf.random.stateless_normal([256, 10], seed=(1, 9))
        data = tf.data.Dataset.from_tensor_slices((x, tf.norm(x, axis=1, keepdims=True))).repeat().batch(self.batch)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        return data.with_options(options)

    def run(self):
        with self.strategy.scope():
            model = keras.Sequential([layers.Dense(self.args.width, activation="relu"), layers.Dense(1)])
            model.compile(optimizer="adam", loss="mse")
        folder = os.path.join(os.environ.get("MODEL_DIR", "."), "backup.weights.h5")
        model.fit(  # BUG COD222
            self.inputs(),
            epochs=self.args.epochs,
            steps_per_epoch=4,
            callbacks=[keras.callbacks.BackupAndRestore(folder)],
            verbose=0,
        )
        return model.count_params()


if __name__ == "__main__":
    print("parameters", Job(arguments()).run())
