"""The TensorFlow checkpoint to restore is of a model with another width and one layer more."""

from lab.launch import Run


def prepare(run: Run) -> None:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input((16,)), layers.Dense(32), layers.Dense(32), layers.Dense(10)])
    path = tf.train.Checkpoint(model=model).save(str(run.work / "ckpt"))
    for args in run.args:
        args += ["--resume", path]
