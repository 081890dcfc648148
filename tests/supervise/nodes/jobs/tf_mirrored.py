# SPDX-License-Identifier: Apache-2.0
"""MultiWorkerMirroredStrategy with a loop of its own, as TensorFlow's guide shows it: a checkpoint per epoch.

``python tf_mirrored.py FOLDER``: the checkpoints are in FOLDER.
"""

import os
import pathlib
import sys
import time

import numpy as np
import tensorflow as tf

EPOCHS, STEPS = int(os.environ.get("EPOCHS", "6")), 10
tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
print(f"{resolver.task_type} {resolver.task_id} is pid {os.getpid()}", flush=True)
tf.keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(EPOCHS * STEPS * 16, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int64")
with strategy.scope():
    layers = [tf.keras.Input((8,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)]
    model = tf.keras.Sequential(layers)
    optimizer = tf.keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
epoch = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch)
is_chief = resolver.task_id == 0
folder = pathlib.Path(sys.argv[1])
own = folder if is_chief else folder / f"not-kept-{resolver.task_id}"  # each must save, and one is kept
manager = tf.train.CheckpointManager(checkpoint, own, max_to_keep=2)
newest = tf.train.latest_checkpoint(folder)
if newest is not None:
    checkpoint.restore(newest)
    print(f"resumed after epoch {int(epoch)}", flush=True)


@tf.function
def step(inputs, labels):
    def replica(inputs, labels):
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.nn.compute_average_loss(each)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=(inputs, labels)), axis=None)


while int(epoch) < EPOCHS:
    first = int(epoch) * STEPS * 16
    data = tf.data.Dataset.from_tensor_slices((x[first : first + STEPS * 16], y[first : first + STEPS * 16])).batch(16)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    for batch in strategy.experimental_distribute_dataset(data.with_options(options)):
        loss = step(*batch)
    epoch.assign_add(1)
    manager.save()
    if is_chief:
        print(f"finished epoch {int(epoch)}, loss {float(loss):.6f}", flush=True)
    time.sleep(float(os.environ.get("PAUSE", "0")))
print("training finished", flush=True)
