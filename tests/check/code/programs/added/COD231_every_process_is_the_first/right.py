# SPDX-License-Identifier: Apache-2.0
"""Two workers on one machine, named in the script."""

import os

import tensorflow as tf

cluster = tf.train.ClusterSpec({"worker": ["127.0.0.1:23450", "127.0.0.1:23451"]})
found = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=int(os.environ["WORKER_INDEX"]))
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=found)
print(strategy.num_replicas_in_sync)
