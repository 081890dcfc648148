# SPDX-License-Identifier: Apache-2.0
"""Fits a plane on the workers of a job."""

import tensorflow as tf
from shared import ROWS, WORKERS
from task import join


def main():
    join()
    with WORKERS.scope():
        weight = tf.Variable(tf.zeros([3, 1]))
    data = tf.data.Dataset.from_tensor_slices(tf.ones([64, 3])).repeat().batch(ROWS)
    batches = iter(WORKERS.experimental_distribute_dataset(data))

    @tf.function
    def step(x):
        return WORKERS.run(lambda rows: tf.reduce_sum(rows @ weight), args=(x,))

    for _ in range(3):
        step(next(batches))


if __name__ == "__main__":
    main()
