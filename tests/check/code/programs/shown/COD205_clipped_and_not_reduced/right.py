# SPDX-License-Identifier: Apache-2.0
"""Trains with gradients clipped by their global norm."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

CLIP = 1.0


def make_model():
    return keras.Sequential([keras.layers.Dense(1, input_shape=(3,), kernel_initializer="zeros")])


def spread(strategy, variable):
    values = [copy.numpy() for copy in strategy.experimental_local_results(variable)]
    return float(np.abs(values[0] - values[-1]).max())


def main():
    strategy = tf.distribute.MirroredStrategy()
    batch = 16 * strategy.num_replicas_in_sync
    with strategy.scope():
        model = make_model()
        optimizer = keras.optimizers.SGD(0.1)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            errors = tf.reduce_mean(tf.square(model(x) - y), axis=1)
            loss = tf.nn.compute_average_loss(errors, global_batch_size=batch)
        variables = model.trainable_variables
        grads = tape.gradient(loss, variables)
        grads = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, grads)
        grads, _ = tf.clip_by_global_norm(grads, CLIP)
        optimizer.apply_gradients(zip(grads, variables), skip_gradients_aggregation=True)
        return loss

    @tf.function
    def train_step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    x = np.random.default_rng(8).normal(size=(320, 3)).astype("float32")
    y = x @ np.array([[1.0], [2.0], [3.0]], "float32") + 1.0
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True)
    for inputs in strategy.experimental_distribute_dataset(dataset):
        train_step(*inputs)
    print("replicas agree:", spread(strategy, model.trainable_variables[0]) < 1e-6)


if __name__ == "__main__":
    main()
