# SPDX-License-Identifier: Apache-2.0
"""Trains a text classifier; the pipeline is a method of the task.

Shows: error 2 devices tensorflow: a dataset cannot be called
"""

import numpy as np
import tensorflow as tf


class Task:
    def __init__(self, global_batch):
        self.global_batch = global_batch

    def build_inputs(self, split, input_context=None):
        rng = np.random.default_rng(len(split))
        tokens = rng.integers(0, 30, size=(240, 12)).astype("int32")
        dataset = tf.data.Dataset.from_tensor_slices((tokens, (tokens[:, 0] > 15).astype("int32")))
        batch = self.global_batch
        if input_context is not None:
            dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
            batch = input_context.get_per_replica_batch_size(batch)
        return dataset.shuffle(240, seed=2).batch(batch, drop_remainder=True)

    def build_model(self):
        layers = tf.keras.layers
        return tf.keras.Sequential([tf.keras.Input((12,)), layers.Embedding(30, 8), layers.Flatten(), layers.Dense(2)])


def make_input(strategy, task):
    return strategy.distribute_datasets_from_function(task.build_inputs("train"))  # BUG COD213


def train(strategy, task):
    with strategy.scope():
        model, optimizer = task.build_model(), tf.keras.optimizers.SGD(0.1)

    def replica(tokens, label):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=model(tokens))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=task.global_batch)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    @tf.function
    def step(tokens, label):
        strategy.run(replica, args=(tokens, label))

    for tokens, label in make_input(strategy, task):
        step(tokens, label)
    return int(optimizer.iterations.numpy())


if __name__ == "__main__":
    mirrored = tf.distribute.MirroredStrategy()
    print("steps", train(mirrored, Task(24)))
