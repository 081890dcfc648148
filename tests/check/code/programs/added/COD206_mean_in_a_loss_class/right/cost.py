# SPDX-License-Identifier: Apache-2.0
"""The cost of a picture's class."""

import tensorflow as tf


class Cost:
    def __init__(self, rows):
        self.rows = rows
        self.entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def __call__(self, wanted, given):
        each = self.entropy(wanted, given)
        return tf.nn.compute_average_loss(each, global_batch_size=self.rows)
