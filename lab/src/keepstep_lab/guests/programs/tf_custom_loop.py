# SPDX-License-Identifier: Apache-2.0
"""A custom loop with MultiWorkerMirroredStrategy: strategy.run, strategy.reduce, a CheckpointManager per worker."""

from __future__ import annotations

import json
import os

import numpy as np
import tensorflow as tf
import tf_keras as keras

EPOCHS, STEPS_PER_EPOCH, PER_WORKER_BATCH = 3, 20, 16

strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf_config = json.loads(os.environ["TF_CONFIG"])
index = tf_config["task"]["index"]
global_batch_size = PER_WORKER_BATCH * len(tf_config["cluster"]["worker"])
keras.utils.set_random_seed(3)


def dataset_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1024, 8)).astype("float32")
    y = (x.sum(axis=1) > 0).astype("int64")
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).repeat()
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.batch(context.get_per_replica_batch_size(global_batch_size))


with strategy.scope():
    model = keras.Sequential(
        [keras.layers.InputLayer(input_shape=(8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
    )
    multi_worker_dataset = strategy.distribute_datasets_from_function(dataset_fn)
    optimizer = keras.optimizers.RMSprop(learning_rate=0.001)
    train_accuracy = keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")


@tf.function
def train_step(iterator: tf.data.Iterator) -> tf.Tensor:
    def step_fn(inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        x, y = inputs
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            per_example = keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction=keras.losses.Reduction.NONE
            )(y, predictions)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=global_batch_size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        train_accuracy.update_state(y, predictions)
        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


epoch = tf.Variable(0, dtype=tf.int64, name="epoch")
checkpoint = tf.train.Checkpoint(model=model, epoch=epoch)
manager = tf.train.CheckpointManager(checkpoint, directory=os.path.join("ckpt", f"worker{index}"), max_to_keep=1)
while int(epoch) < EPOCHS:
    iterator = iter(multi_worker_dataset)
    total_loss = 0.0
    for _ in range(STEPS_PER_EPOCH):
        total_loss += train_step(iterator)
    print(
        (
            f"worker {index} epoch {int(epoch)} accuracy {float(train_accuracy.result()):.6f} loss "
            f"{float(total_loss / STEPS_PER_EPOCH)!r}"
        ),
        flush=True,
    )
    train_accuracy.reset_states()
    epoch.assign_add(1)
    manager.save()
