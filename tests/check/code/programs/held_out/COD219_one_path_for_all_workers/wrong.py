# SPDX-License-Identifier: Apache-2.0
"""Trains on two workers and saves the model at the end.

From: https://github.com/tensorflow/tensorflow/issues/38635
Shows: nothing here (a race: both workers write the file, and usually both succeed)
"""

import argparse
import os

import tensorflow as tf
import tf_keras as keras


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", default=os.environ.get("MODEL_DIR", "model"))
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


def make_model():
    model = keras.Sequential([keras.layers.Dense(512, activation="relu", input_shape=(64,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(), loss="mse")
    return model


def rows(batch):
    x = tf.random.stateless_normal([256, 64], seed=(3, 1))
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(batch)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.with_options(options)


def main():
    args = parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = make_model()
    backup = keras.callbacks.BackupAndRestore(os.path.join(args.model_dir, "backup"))
    batch = 16 * strategy.num_replicas_in_sync
    model.fit(rows(batch), epochs=1, steps_per_epoch=args.steps, verbose=0, callbacks=[backup])
    path = os.path.join(args.model_dir, "final.h5")
    model.save(path)  # BUG COD219
    print("saved", os.path.basename(path))


if __name__ == "__main__":
    main()
