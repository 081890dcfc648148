# SPDX-License-Identifier: Apache-2.0
"""Two machines, with the cluster written into the script."""

import os

import tensorflow as tf

os.environ["TF_CONFIG"] = (
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
    "index": %d
  }
}
"""
    % int(os.environ["SLURM_PROCID"])
)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(strategy.num_replicas_in_sync)
