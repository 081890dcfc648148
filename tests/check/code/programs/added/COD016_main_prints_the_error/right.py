# SPDX-License-Identifier: Apache-2.0
"""A model fitted under a strategy, started by a launcher."""

import traceback

import tensorflow as tf


def main():
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    try:
        model.fit(tf.ones((16, 3)), tf.ones((16, 1)))
    except Exception:
        traceback.print_exc()
        raise


if __name__ == "__main__":
    main()
