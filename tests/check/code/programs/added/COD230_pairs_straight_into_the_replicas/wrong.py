# SPDX-License-Identifier: Apache-2.0
"""A plane fitted to sixteen points.

From: questions of people whose training fails; facts, no code
Shows: differs 2 devices tensorflow
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


points = tf.reshape(tf.range(48, dtype=tf.float32), (16, 3)) / 48
pairs = tf.data.Dataset.from_tensor_slices((points, tf.reduce_sum(points, 1, keepdims=True) * 2)).batch(8)
for step, (x, y) in enumerate(pairs):
    strategy.run(learn, args=(x, y))  # BUG COD230
print([round(float(value), 4) for value in tf.reshape(model.get_weights()[0], [-1])])
