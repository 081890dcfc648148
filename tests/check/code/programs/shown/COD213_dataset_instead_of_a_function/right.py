# SPDX-License-Identifier: Apache-2.0
"""Trains a regression; the input is distributed by hand."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 32


def dataset_fn(context):
    batch_size = context.get_per_replica_batch_size(GLOBAL_BATCH)
    x, y = arrays()
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.batch(batch_size, drop_remainder=True)


def arrays():
    x = np.random.default_rng(14).normal(size=(320, 4)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    optimizer = tf.keras.optimizers.SGD(0.1)


def step_fn(x, y):
    with tf.GradientTape() as tape:
        per_example = tf.reduce_mean(tf.square(model(x) - y), axis=1)
        loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


@tf.function
def train_step(x, y):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step_fn, args=(x, y)), axis=None)


distributed = strategy.distribute_datasets_from_function(dataset_fn)
for x, y in distributed:
    loss = train_step(x, y)
print(f"loss {float(loss):.3f}")
