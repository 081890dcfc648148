# SPDX-License-Identifier: Apache-2.0
"""The mean over all replicas of a strategy.

From: questions of people whose training fails; facts, no code
Shows: error 2 devices tensorflow
"""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()


def mean(x):
    return tf.tpu.cross_replica_sum(x) / 2  # BUG COD018


print(strategy.experimental_local_results(strategy.run(mean, args=(tf.constant(2.0),))))
