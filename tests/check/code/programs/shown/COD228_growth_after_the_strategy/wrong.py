# SPDX-License-Identifier: Apache-2.0
"""Trains on all GPUs of this host and leaves memory to other jobs.

From: https://github.com/hunglc007/tensorflow-yolov4-tflite/issues/171
Shows: nothing here (needs a GPU)
"""

import numpy as np
import tensorflow as tf


def share_gpus():
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)  # BUG COD228


def detector():
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((64, 64, 3)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )


def boxes(batch):
    rng = np.random.default_rng(50)
    images = rng.uniform(size=(128, 64, 64, 3)).astype("float32")
    targets = rng.uniform(size=(128, 4)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((images, targets)).shuffle(128, seed=2).batch(batch, drop_remainder=True)


def main():
    strategy = tf.distribute.MirroredStrategy()
    share_gpus()  # BUG COD228
    with strategy.scope():
        model = detector()
        model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="huber")
    history = model.fit(boxes(16 * strategy.num_replicas_in_sync), epochs=2, verbose=0)
    print("epochs", len(history.epoch))


if __name__ == "__main__":
    main()
