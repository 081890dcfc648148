# SPDX-License-Identifier: Apache-2.0
"""Parameter server training as TensorFlow's guide shows it: roles from TF_CONFIG, and a checkpoint per epoch.

``python tf_parameter_servers.py FOLDER``: the checkpoints are in FOLDER.
"""

import os
import pathlib
import sys
import time

os.environ["GRPC_FAIL_FAST"] = "use_caller"  # as the guide does: the coordinator is told of a lost task

import numpy as np
import tensorflow as tf

EPOCHS, STEPS = int(os.environ.get("EPOCHS", "6")), 10
tf.config.threading.set_intra_op_parallelism_threads(1)
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
folder = pathlib.Path(sys.argv[1])


def model_and_optimizer():
    tf.keras.utils.set_random_seed(3)
    layers = [tf.keras.Input((8,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)]
    model = tf.keras.Sequential(layers)
    optimizer = tf.keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def data():
    x = np.random.default_rng(0).normal(size=(1024, 8)).astype("float32")
    y = (x.sum(axis=1) > 0).astype("int64")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).repeat().batch(32)


def evaluate():
    """Each new checkpoint, as a sidecar evaluator does, until the last one."""
    model, _ = model_and_optimizer()
    epoch = tf.Variable(0, dtype=tf.int64)
    checkpoint, seen = tf.train.Checkpoint(model=model, epoch=epoch), None
    x, y = next(iter(data()))
    while int(epoch) < EPOCHS:
        newest = tf.train.latest_checkpoint(folder)
        if newest is not None and newest != seen:
            seen = newest
            checkpoint.restore(newest).expect_partial()
            right = tf.reduce_mean(tf.cast(tf.argmax(model(x), axis=1) == y, tf.float32))
            print(f"evaluated epoch {int(epoch)}: accuracy {float(right):.4f}", flush=True)
        time.sleep(0.2)


def coordinate():
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model, optimizer = model_and_optimizer()
        epoch = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    if manager.restore_or_initialize():
        print(f"resumed after epoch {int(epoch)}", flush=True)

    @tf.function
    def step_fn(iterator):
        def replica_fn(x, y):
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(replica_fn, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(data))
    while int(epoch) < EPOCHS:
        for _ in range(STEPS):
            loss = coordinator.schedule(step_fn, args=(iterator,))
        coordinator.join()
        epoch.assign_add(1)
        manager.save()
        print(f"finished epoch {int(epoch)}, loss {float(loss.fetch()):.6f}", flush=True)
        time.sleep(float(os.environ.get("PAUSE", "0")))
    print("training finished", flush=True)


print(f"{resolver.task_type} {resolver.task_id} is pid {os.getpid()}", flush=True)
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()
elif resolver.task_type == "evaluator":
    evaluate()
else:
    coordinate()
