# SPDX-License-Identifier: Apache-2.0
"""Two machines, with the cluster written into the script.

From: questions of people whose training fails; facts, no code
Shows: nothing here (needs two hosts)
"""

import os

import tensorflow as tf

os.environ["TF_CONFIG"] = (  # BUG COD210
    """
{
  "cluster": {
    "worker": [
      "first.training.internal.example:12345",
      "second.training.internal.example:12345"
    ]
  },
  "task": {
    "type": "worker",
    "index": 1
  }
}
"""
)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(strategy.num_replicas_in_sync)
