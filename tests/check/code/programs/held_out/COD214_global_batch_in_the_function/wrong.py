# SPDX-License-Identifier: Apache-2.0
"""Trains with an input function that is called once per input pipeline.

From: https://TensorFlow.org/versions/r2.4/api_docs/python/tf/compat/v1/distribute/Strategy
Shows: differs 2 devices tensorflow: every replica gets a global batch, and the loss is doubled
"""

import numpy as np
import tensorflow as tf

GLOBAL_BATCH_SIZE = 32


def dataset_fn(input_context):
    batch_size = GLOBAL_BATCH_SIZE  # BUG COD214
    rng = np.random.default_rng(2)
    x = rng.normal(size=(640, 3)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, x.prod(axis=1, keepdims=True) + 1.0))
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(batch_size, drop_remainder=True).prefetch(2)  # BUG COD214


def main():
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
        optimizer = tf.keras.optimizers.SGD(0.05)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_mean(tf.square(model(x) - y), axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH_SIZE)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    @tf.function
    def step(inputs):
        losses = strategy.run(replica_step, args=inputs)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    losses = [float(step(inputs)) for inputs in strategy.distribute_datasets_from_function(dataset_fn)]
    print(f"{len(losses)} steps, first loss {losses[0]:.3f}, last {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
