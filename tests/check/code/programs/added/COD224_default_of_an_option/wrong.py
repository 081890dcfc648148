# SPDX-License-Identifier: Apache-2.0
"""Trains on a TPU with a batch size from the command line.

Shows: nothing here (needs a TPU)
"""

import argparse

import tensorflow as tf


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    return parser.parse_args()


def main():
    args = options()
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
    data = tf.data.Dataset.from_tensor_slices((tf.random.normal((1024, 4)), tf.random.normal((1024, 1))))
    data = data.repeat().batch(args.batch_size, drop_remainder=True)  # BUG COD224
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    model.fit(data, epochs=args.epochs, steps_per_epoch=10)


if __name__ == "__main__":
    main()
