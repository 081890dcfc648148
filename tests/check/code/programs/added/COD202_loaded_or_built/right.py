# SPDX-License-Identifier: Apache-2.0
"""Goes on with a saved model if there is one, or builds a new one."""

import os

import tensorflow as tf

PATH = "model.keras"


def model_for(strategy):
    if os.path.exists(PATH):
        with strategy.scope():
            return tf.keras.models.load_model(PATH)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    return model


def main():
    strategy = tf.distribute.MirroredStrategy()
    model = model_for(strategy)
    data = tf.data.Dataset.from_tensor_slices((tf.random.normal((64, 4)), tf.random.normal((64, 1)))).batch(16)
    model.fit(data, epochs=2)
    model.save(PATH)


if __name__ == "__main__":
    main()
