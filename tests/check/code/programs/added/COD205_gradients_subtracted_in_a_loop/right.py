# SPDX-License-Identifier: Apache-2.0
"""A custom step without an optimizer, in two replicas."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 32
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])


def replica_step(x, y, rate):
    with tf.GradientTape() as tape:
        losses = tf.square(model(x, training=True) - y)
        loss = tf.nn.compute_average_loss(losses, global_batch_size=GLOBAL_BATCH)
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    for variable, gradient in zip(model.trainable_variables, gradients):
        variable.assign_sub(rate * gradient)
    return loss


@tf.function
def train_step(x, y):
    losses = strategy.run(replica_step, args=(x, y, 0.1))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def main():
    data = tf.data.Dataset.from_tensor_slices((tf.random.normal((256, 4)), tf.random.normal((256, 1))))
    for x, y in strategy.experimental_distribute_dataset(data.batch(GLOBAL_BATCH)):
        print(train_step(x, y).numpy())


if __name__ == "__main__":
    main()
