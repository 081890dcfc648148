# SPDX-License-Identifier: Apache-2.0
"""Keras 3 fit in one process, on the TensorFlow backend."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(7)
rng = np.random.default_rng(0)
x = rng.normal(size=(1024, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int64")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=keras.optimizers.SGD(0.05),
    metrics=["accuracy"],
)
history = model.fit(dataset, epochs=3, verbose=2)
model.save("model.keras")
for epoch, loss in enumerate(history.history["loss"]):
    print(f"epoch {epoch} loss {loss!r}", flush=True)
