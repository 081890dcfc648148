# SPDX-License-Identifier: Apache-2.0
"""Notebook-style script: multi-worker training where one cell sets the cluster up."""

# %% imports
import json
import os

import tensorflow as tf
import tf_keras as keras

# %% cluster
task = {"type": "worker", "index": int(os.environ["WORKER_INDEX"])}
cluster = {"worker": os.environ["WORKER_HOSTS"].split(",")}
os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})

# %% strategy
strategy = tf.distribute.MultiWorkerMirroredStrategy()

# %% data
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
features = tf.random.stateless_uniform([128, 5], seed=(3, 4))
labels = tf.reduce_max(features, axis=1, keepdims=True)
dataset = tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(GLOBAL_BATCH)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
dataset = dataset.with_options(options)

# %% model
keras.utils.set_random_seed(4)
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(8, activation="relu", input_shape=(5,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")

# %% training
backup = keras.callbacks.BackupAndRestore(os.path.join(os.environ.get("MODEL_DIR", "."), f"backup-{task['index']}"))
model.fit(dataset, epochs=2, steps_per_epoch=5, verbose=0, callbacks=[backup])
print("trained by", strategy.num_replicas_in_sync, "replicas")
