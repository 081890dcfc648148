# SPDX-License-Identifier: Apache-2.0
"""A plane fitted without an optimizer.

From: questions of people whose training fails; facts, no code
Shows: differs 2 devices tensorflow
"""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
    optimizer = tf.keras.optimizers.SGD(0.01)

points = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(48, dtype=tf.float32), (16, 3)) / 48).batch(8)


@tf.function
def learn(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(model(x))[:, 0], global_batch_size=8)
    slopes = tape.gradient(loss, model.trainable_variables)
    fresh = [old - 0.1 * slope for old, slope in zip(model.trainable_variables, slopes)]
    for old, new in zip(model.trainable_variables, fresh):
        old.assign(new)  # BUG COD205


for x in strategy.experimental_distribute_dataset(points):
    strategy.run(learn, args=(x,))
print([[round(float(v), 4) for v in tf.reshape(copy, [-1])] for copy in strategy.experimental_local_results(model.trainable_variables[0].value)])
