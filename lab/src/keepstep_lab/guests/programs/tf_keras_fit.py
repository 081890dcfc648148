# SPDX-License-Identifier: Apache-2.0
"""Multi-worker training with Keras (tf_keras): fit under MultiWorkerMirroredStrategy, with BackupAndRestore."""

from __future__ import annotations

import json
import os

import numpy as np
import tensorflow as tf
import tf_keras as keras

PER_WORKER_BATCH = 16

strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf_config = json.loads(os.environ["TF_CONFIG"])
num_workers = len(tf_config["cluster"]["worker"])
index = tf_config["task"]["index"]


def make_dataset(batch_size: int) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1024, 8)).astype("float32")
    y = (x.sum(axis=1) > 0).astype("int64")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).repeat().batch(batch_size)


def build_and_compile() -> keras.Model:
    model = keras.Sequential(
        [keras.layers.InputLayer(input_shape=(8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=0.05),
        metrics=["accuracy"],
    )
    return model


keras.utils.set_random_seed(7)
with strategy.scope():
    multi_worker_model = build_and_compile()
callbacks = [keras.callbacks.BackupAndRestore(backup_dir="backup")]
history = multi_worker_model.fit(
    make_dataset(PER_WORKER_BATCH * num_workers),
    epochs=3,
    steps_per_epoch=20,
    callbacks=callbacks,
    verbose=2 if index == 0 else 0,
)
for epoch, loss in enumerate(history.history["loss"]):
    print(f"worker {index} epoch {epoch} loss {loss!r}", flush=True)
