"""A tf.function holds its data as constants: the graph grows past protobuf's limit of 2 GB."""


def at(step: int, rank: int) -> None:
    import numpy as np
    import tensorflow as tf

    table = np.ones((1_150_000_000 // 4,), dtype="float32")

    @tf.function
    def lookup(index: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(table), index) + tf.gather(tf.constant(table + 1), index)

    print(lookup(tf.constant(3)))
