# SPDX-License-Identifier: Apache-2.0
"""Parameter server training with a ClusterCoordinator: the chief schedules steps, workers and ps run servers."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tf_keras as keras

EPOCHS, STEPS_PER_EPOCH = 4, 30

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()

keras.utils.set_random_seed(3)
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    model = keras.Sequential(
        [keras.layers.InputLayer(input_shape=(8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
    )
    optimizer = keras.optimizers.SGD(learning_rate=0.05)
    accuracy = keras.metrics.SparseCategoricalAccuracy()


def dataset_fn(_: tf.distribute.InputContext) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1024, 8)).astype("float32")
    y = (x.sum(axis=1) > 0).astype("int64")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).repeat().batch(32)


@tf.function
def step_fn(iterator: tf.data.Iterator) -> tf.Tensor:
    def replica_fn(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        x, y = batch
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            per_example = keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction=keras.losses.Reduction.NONE
            )(y, predictions)
            loss = tf.nn.compute_average_loss(per_example)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(y, predictions)
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_fn, args=(next(iterator),)), axis=None)


@tf.function
def per_worker_dataset_fn() -> tf.distribute.DistributedDataset:
    return strategy.distribute_datasets_from_function(dataset_fn)


per_worker_iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
checkpoint = tf.train.Checkpoint(model=model)
for epoch in range(EPOCHS):
    accuracy.reset_states()
    for _ in range(STEPS_PER_EPOCH):
        loss = coordinator.schedule(step_fn, args=(per_worker_iterator,))
    coordinator.join()
    print(
        f"finished epoch {epoch}, accuracy {float(accuracy.result()):.6f}, loss {float(loss.fetch()):.6f}", flush=True
    )
