# SPDX-License-Identifier: Apache-2.0
"""A line fitted from two columns, with an input pipeline per worker."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    optimizer = tf.keras.optimizers.SGD(0.01)


def pipeline(context):
    rows = tf.data.Dataset.range(16).batch(context.get_per_replica_batch_size(4))
    return rows.prefetch(2)


batches = strategy.distribute_datasets_from_function(pipeline)
for batch in batches:
    print(strategy.experimental_local_results(batch))
