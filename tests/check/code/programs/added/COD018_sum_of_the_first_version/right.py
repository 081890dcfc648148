# SPDX-License-Identifier: Apache-2.0
"""The mean over all replicas of a strategy."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()


def mean(x):
    return tf.distribute.get_replica_context().all_reduce("mean", x)


print(strategy.experimental_local_results(strategy.run(mean, args=(tf.constant(2.0),))))
