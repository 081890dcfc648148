# SPDX-License-Identifier: Apache-2.0
"""Trains on several workers with fit(), as the multi-worker tutorial does."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf

PER_WORKER = 32


def mnist_like(batch_size):
    images = tf.random.stateless_uniform([320, 14, 14], seed=(6, 6))
    labels = tf.cast(tf.reduce_mean(images, axis=(1, 2)) > 0.5, tf.int64)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def build_and_compile():
    model = tf.keras.Sequential(
        [tf.keras.layers.Flatten(), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.01),
    )
    return model


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = mnist_like(PER_WORKER * strategy.num_replicas_in_sync)
    with strategy.scope():
        model = build_and_compile()
    backup = tf.keras.callbacks.BackupAndRestore(os.path.join(os.environ.get("MODEL_DIR", "."), "backup.weights.h5"))
    model.fit(dataset, epochs=2, steps_per_epoch=5, verbose=0, callbacks=[backup])
    print("trained on", strategy.num_replicas_in_sync)


if __name__ == "__main__":
    main()
