# SPDX-License-Identifier: Apache-2.0
"""Sorts small pictures into classes with a convolution that is averaged over the whole picture."""

import tensorflow as tf
from cost import Cost

strategy = tf.distribute.MirroredStrategy()
ROWS = 16 * strategy.num_replicas_in_sync


def pictures():
    x = tf.random.stateless_normal([64, 8, 8, 1], seed=(2, 5))
    y = tf.cast(tf.reduce_sum(x, axis=(1, 2, 3)) > 0, tf.int64)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(ROWS, drop_remainder=True)


def sorter():
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Conv2D(4, 3), layers.GlobalAveragePooling2D(), layers.Dense(2)])


with strategy.scope():
    net = sorter()
    rule = tf.keras.optimizers.SGD(0.1)
    cost = Cost(ROWS)


def learn(x, y):
    with tf.GradientTape() as tape:
        value = cost(y, net(x, training=True))
    slopes, _ = tf.clip_by_global_norm(tape.gradient(value, net.trainable_variables), 1.0)
    rule.apply_gradients(zip(slopes, net.trainable_variables))
    return value


@tf.function
def together(x, y):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(learn, args=(x, y)), axis=None)


for x, y in strategy.experimental_distribute_dataset(pictures()):
    print(float(together(x, y)))
