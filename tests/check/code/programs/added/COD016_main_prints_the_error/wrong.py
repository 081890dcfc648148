# SPDX-License-Identifier: Apache-2.0
"""A model fitted under a strategy, started by a launcher.

From: questions of people whose training fails; facts, no code
Shows: nothing here (the status is 0 after a failure)
"""

import traceback

import tensorflow as tf


def main():
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    try:
        model.fit(tf.ones((16, 3)), tf.ones((16, 1)))
    except Exception:  # BUG COD016
        traceback.print_exc()

if __name__ == "__main__":
    main()
