# SPDX-License-Identifier: Apache-2.0
"""Trains on a TPU with images that a Python library augments.

From: https://github.com/tensorflow/tensorflow/issues/30818
Shows: nothing here (needs a TPU)
"""

import numpy as np
import tensorflow as tf

HEIGHT = WIDTH = 96
AUTOTUNE = tf.data.AUTOTUNE


def flip_and_jitter(image):
    array = image.numpy()
    if np.random.rand() < 0.5:
        array = array[:, ::-1]
    return np.clip(array + np.random.normal(0.0, 0.05, array.shape), 0.0, 1.0).astype("float32")


def augment(image, label):
    image = tf.py_function(flip_and_jitter, [image], tf.float32)  # BUG COD227
    return tf.ensure_shape(image, (HEIGHT, WIDTH, 3)), label


def decode(record):
    spec = {"jpeg": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, spec)
    image = tf.image.resize(tf.io.decode_jpeg(example["jpeg"], channels=3), (HEIGHT, WIDTH)) / 255.0
    return image, tf.cast(example["class"], tf.int32)


def inputs(pattern, batch):
    data = tf.data.Dataset.list_files(pattern).interleave(tf.data.TFRecordDataset, num_parallel_calls=AUTOTUNE)
    data = data.map(decode, num_parallel_calls=AUTOTUNE).shuffle(4096).repeat()
    data = data.map(augment, num_parallel_calls=AUTOTUNE)
    return data.batch(batch, drop_remainder=True).prefetch(AUTOTUNE)


class Experiment:
    def __init__(self, tpu):
        cluster = tf.distribute.cluster_resolver.TPUClusterResolver(tpu)
        tf.config.experimental_connect_to_cluster(cluster)
        tf.tpu.experimental.initialize_tpu_system(cluster)
        self.strategy = tf.distribute.TPUStrategy(cluster)
        with self.strategy.scope():
            self.model = tf.keras.applications.ResNet50(weights=None, input_shape=(HEIGHT, WIDTH, 3), classes=100)
            self.model.compile("adam", "sparse_categorical_crossentropy")

    def run(self, pattern):
        batch = 64 * self.strategy.num_replicas_in_sync
        self.model.fit(inputs(pattern, batch), epochs=30, steps_per_epoch=500)


if __name__ == "__main__":
    Experiment("my-tpu").run("gs://photos/train-*")
