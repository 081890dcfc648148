# SPDX-License-Identifier: Apache-2.0
"""A classifier of three columns."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, kernel_initializer="ones")])
    optimizer = tf.keras.optimizers.SGD(0.01)


@tf.function
def learn(x, y):
    with tf.GradientTape() as tape:
        off = tf.keras.losses.sparse_categorical_crossentropy(y, model(x))
        off = tf.nn.compute_average_loss(off, global_batch_size=8)
    slopes = tape.gradient(off, model.trainable_variables)
    optimizer.apply_gradients(zip(slopes, model.trainable_variables))


rows = tf.data.Dataset.from_tensor_slices((tf.ones((16, 3)), tf.zeros((16,), tf.int32))).batch(8)
for x, y in strategy.experimental_distribute_dataset(rows):
    strategy.run(learn, args=(x, y))
