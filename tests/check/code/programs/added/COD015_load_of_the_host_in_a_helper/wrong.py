# SPDX-License-Identifier: Apache-2.0
"""A step of a strategy, with the load of the host beside each loss.

From: questions of people whose training fails; facts, no code
Shows: nothing here (it is only slow)
"""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    optimizer = tf.keras.optimizers.SGD(0.01)


@tf.function
def learn(x, y):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(model(x) - y)[:, 0], global_batch_size=8)
    slopes = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(slopes, model.trainable_variables))

import psutil


def watch(step):
    print(step, psutil.cpu_percent(0.5))  # BUG COD015


rows = tf.data.Dataset.from_tensor_slices((tf.ones((16, 3)), tf.ones((16, 1)))).batch(8)
for step, (x, y) in enumerate(strategy.experimental_distribute_dataset(rows)):
    strategy.run(learn, args=(x, y))
    watch(step)
