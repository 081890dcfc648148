# SPDX-License-Identifier: Apache-2.0
"""Trains on a TPU with images that a Python library augments."""

import tensorflow as tf

HEIGHT = WIDTH = 96
AUTOTUNE = tf.data.AUTOTUNE


def flip_and_jitter(image):
    image = tf.image.random_flip_left_right(image)
    return tf.clip_by_value(image + tf.random.normal(tf.shape(image), stddev=0.05), 0.0, 1.0)


def augment(image, label):
    image = flip_and_jitter(image)
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
