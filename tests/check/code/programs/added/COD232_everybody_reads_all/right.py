# SPDX-License-Identifier: Apache-2.0
"""Two workers that read the same numbers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
numbers = tf.data.Dataset.range(8).batch(4)
choice = tf.data.Options()
choice.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
for batch in strategy.experimental_distribute_dataset(numbers.with_options(choice)):
    print(strategy.experimental_local_results(batch)[0].numpy().tolist())
