"""The Keras weights file to load is of a wider model."""

from lab.launch import Run


def prepare(run: Run) -> None:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input((16,)), layers.Dense(48), layers.Dense(10)])
    path = str(run.work / "start.weights.h5")
    model.save_weights(path)
    for args in run.args:
        args += ["--load-weights", path]
