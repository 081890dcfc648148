# SPDX-License-Identifier: Apache-2.0
"""Two workers on one machine, named in the script.

From: questions of people whose training fails; facts, no code
Shows: nothing here (waits for a worker that never comes)
"""

import os

import tensorflow as tf

cluster = tf.train.ClusterSpec({"worker": ["127.0.0.1:23450", "127.0.0.1:23451"]})
found = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=0)  # BUG COD231
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=found)
print(strategy.num_replicas_in_sync)
