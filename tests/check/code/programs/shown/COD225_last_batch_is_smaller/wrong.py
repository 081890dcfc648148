# SPDX-License-Identifier: Apache-2.0
"""Trains a dilated segmentation network on a TPU.

From: https://github.com/tensorflow/tensorflow/issues/48602
Shows: nothing here (needs a TPU)
"""

import tensorflow as tf

SIZE = 128
PER_CORE = 8

resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
strategy = tf.distribute.TPUStrategy(resolver)
batch_size = PER_CORE * strategy.num_replicas_in_sync


def network():
    inputs = tf.keras.Input((SIZE, SIZE, 3))
    x = tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
    x = tf.keras.layers.Conv2D(32, 3, padding="same", dilation_rate=4, activation="relu")(x)
    return tf.keras.Model(inputs, tf.keras.layers.Conv2D(2, 1)(x))


def load(pattern):
    def parse(record):
        parsed = tf.io.parse_single_example(
            record, {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}
        )
        image = tf.ensure_shape(tf.io.decode_png(parsed["image"], channels=3), (SIZE, SIZE, 3))
        mask = tf.ensure_shape(tf.io.decode_png(parsed["mask"], channels=1), (SIZE, SIZE, 1))
        return tf.cast(image, tf.float32) / 127.5 - 1.0, tf.cast(mask, tf.int32)

    records = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern)))
    records = records.shuffle(1024).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return records.batch(batch_size).prefetch(tf.data.AUTOTUNE)  # BUG COD225


with strategy.scope():
    model = network()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )

model.fit(load("gs://segmentation/train-*.tfrecord"), epochs=20)
