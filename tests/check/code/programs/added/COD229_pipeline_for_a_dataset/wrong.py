# SPDX-License-Identifier: Apache-2.0
"""A line fitted from two columns, with an input pipeline per worker.

From: questions of people whose training fails; facts, no code
Shows: error 2 devices tensorflow
"""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    optimizer = tf.keras.optimizers.SGD(0.01)


def pipeline(source):
    rows = source.shuffle(16).batch(4)  # BUG COD229
    return rows.prefetch(2)


batches = strategy.distribute_datasets_from_function(pipeline)
for batch in batches:
    print(strategy.experimental_local_results(batch))
