# SPDX-License-Identifier: Apache-2.0
"""Trains for a long time on several workers with fit()."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf

EPOCHS = int(os.environ.get("EPOCHS", "200"))
STEPS = 500


def make_dataset(batch_size):
    x = tf.random.stateless_normal([4096, 32], seed=(0, 1))
    y = tf.cast(x[:, 0] > 0, tf.int32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096, seed=1).repeat().batch(batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)


def make_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(256, activation="relu", input_shape=(32,)),
            tf.keras.layers.Dropout(0.2),
            tf.keras.layers.Dense(2),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
    return model


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    batch_size = 64 * strategy.num_replicas_in_sync
    with strategy.scope():
        model = make_model()
    callbacks = [tf.keras.callbacks.TerminateOnNaN()]
    folder = os.path.join(os.environ.get("MODEL_DIR", "."), "backup")
    callbacks.append(tf.keras.callbacks.BackupAndRestore(folder))
    model.fit(make_dataset(batch_size), epochs=EPOCHS, steps_per_epoch=STEPS, callbacks=callbacks)


if __name__ == "__main__":
    main()
