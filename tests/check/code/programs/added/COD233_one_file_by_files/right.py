# SPDX-License-Identifier: Apache-2.0
"""Two workers that read one file."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
names = ["all.tfrecord", "more.tfrecord"]
records = tf.data.TFRecordDataset(names)
choice = tf.data.Options()
choice.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
batches = strategy.experimental_distribute_dataset(records.batch(4).with_options(choice))
