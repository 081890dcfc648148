# SPDX-License-Identifier: Apache-2.0
"""Counts the steps of a custom loop in a variable of the module.

Shows: nothing here (needs two devices)
"""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.1)
steps = 0


def replica_step(x):
    global steps
    steps += 1  # BUG COD209
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(model(x)), global_batch_size=16)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


@tf.function
def train_step(x):
    strategy.run(replica_step, args=(x,))


def main():
    data = tf.data.Dataset.from_tensor_slices(tf.random.normal((64, 4))).batch(16)
    for x in strategy.experimental_distribute_dataset(data):
        train_step(x)
    print(steps, "steps")


if __name__ == "__main__":
    main()
