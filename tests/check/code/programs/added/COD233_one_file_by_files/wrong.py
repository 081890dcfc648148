# SPDX-License-Identifier: Apache-2.0
"""Two workers that read one file.

From: questions of people whose training fails; facts, no code
Shows: nothing here (needs a file)
"""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
names = ["all.tfrecord"]
records = tf.data.TFRecordDataset(names)  # BUG COD233
choice = tf.data.Options()
choice.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
batches = strategy.experimental_distribute_dataset(records.batch(4).with_options(choice))
