# SPDX-License-Identifier: Apache-2.0
"""A plane fitted to random points, in a loop of its own."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    optimizer = tf.keras.optimizers.SGD(0.01)

points = tf.data.Dataset.from_tensor_slices(tf.ones((16, 3))).batch(8)


@tf.function
def learn(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(model(x))[:, 0], global_batch_size=8)
    slopes = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(slopes, model.trainable_variables))


for epoch in range(2):
    for x in strategy.experimental_distribute_dataset(points):
        strategy.run(learn, args=(x,))
