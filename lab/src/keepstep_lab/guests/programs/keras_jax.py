# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on the JAX backend: `fit` with `keras.distribution.DataParallel` over the devices of this process."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import keras
import numpy as np

keras.utils.set_random_seed(0)
keras.distribution.set_distribution(keras.distribution.DataParallel())
source = np.random.default_rng(0)
x = source.normal(size=(1024, 20)).astype("float32")
y = np.argmax(x @ source.normal(size=(20, 5)), axis=1)

model = keras.Sequential(
    [
        keras.Input((20,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(5),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(
    x,
    y,
    batch_size=32,
    epochs=3,
    validation_split=0.125,
    callbacks=[keras.callbacks.ModelCheckpoint("best.weights.h5", save_best_only=True, save_weights_only=True)],
    verbose=2,
)
for epoch, (loss, val) in enumerate(zip(history.history["loss"], history.history["val_loss"], strict=True), 1):
    print(f"epoch {epoch} loss {loss!r} val_loss {val!r}", flush=True)
