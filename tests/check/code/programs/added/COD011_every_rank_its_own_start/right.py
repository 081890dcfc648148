# SPDX-License-Identifier: Apache-2.0
"""Trains with Horovod and Keras."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf


def build():
    return tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])


def main(data):
    hvd.init()
    model = build()
    optimizer = tf.keras.optimizers.Adam(1e-3 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer)
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(data, epochs=3, callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ])
