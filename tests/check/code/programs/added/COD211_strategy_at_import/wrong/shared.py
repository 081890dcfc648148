# SPDX-License-Identifier: Apache-2.0
"""What all files of the program share.

From: https://github.com/tensorflow/tensorflow/issues/31154
Shows: nothing here (each worker trains alone, without an error)
"""

import tensorflow as tf

WORKERS = tf.distribute.MultiWorkerMirroredStrategy()
ROWS = 8 * WORKERS.num_replicas_in_sync
