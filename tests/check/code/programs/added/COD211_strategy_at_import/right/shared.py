# SPDX-License-Identifier: Apache-2.0
"""What all files of the program share."""

import tensorflow as tf


def workers():
    return tf.distribute.MultiWorkerMirroredStrategy()
