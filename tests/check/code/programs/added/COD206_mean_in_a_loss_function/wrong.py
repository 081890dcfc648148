# SPDX-License-Identifier: Apache-2.0
"""The loss of a custom loop is computed in a function of its own.

Shows: nothing here (needs two devices)
"""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
    optimizer = tf.keras.optimizers.Adam()


def compute_loss(labels, logits):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)  # BUG COD206
    return loss


def replica_step(x, y):
    with tf.GradientTape() as tape:
        loss = compute_loss(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def train_step(x, y):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(x, y)), axis=None)


def main():
    labels = tf.random.uniform((256,), maxval=3, dtype=tf.int32)
    data = tf.data.Dataset.from_tensor_slices((tf.random.normal((256, 4)), labels)).batch(32)
    for x, y in strategy.experimental_distribute_dataset(data):
        train_step(x, y)


if __name__ == "__main__":
    main()
