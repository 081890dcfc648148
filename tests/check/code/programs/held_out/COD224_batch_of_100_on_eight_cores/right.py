# SPDX-License-Identifier: Apache-2.0
"""Trains an image classifier on a TPU v3-8."""

import argparse

import tensorflow as tf

IMAGE = (32, 32, 3)
BATCH_SIZE = 128
CORES = 8


def connect(name):
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), IMAGE)
    return tf.cast(image, tf.float32) / 255.0, tf.cast(example["label"], tf.int32)


def dataset(pattern):
    files = tf.data.Dataset.list_files(pattern, seed=1)
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    records = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).shuffle(2048).repeat()
    return records.batch(BATCH_SIZE, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tpu", default="local")
    parser.add_argument("--data", required=True)
    args = parser.parse_args()
    strategy = connect(args.tpu)
    assert strategy.num_replicas_in_sync == CORES, "the batch size is chosen for eight cores"
    with strategy.scope():
        model = tf.keras.applications.MobileNetV2(IMAGE, weights=None, classes=10)
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(dataset(args.data), epochs=10, steps_per_epoch=50_000 // BATCH_SIZE)


if __name__ == "__main__":
    main()
