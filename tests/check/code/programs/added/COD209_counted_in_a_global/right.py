# SPDX-License-Identifier: Apache-2.0
"""Counts the steps of a custom loop in a variable of the module."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.1)
steps = 0


def replica_step(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(model(x)), global_batch_size=16)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


@tf.function
def train_step(x):
    strategy.run(replica_step, args=(x,))


def main():
    global steps
    data = tf.data.Dataset.from_tensor_slices(tf.random.normal((64, 4))).batch(16)
    for x in strategy.experimental_distribute_dataset(data):
        train_step(x)
        steps += 1
    print(steps, "steps")


if __name__ == "__main__":
    main()
