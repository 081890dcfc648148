# SPDX-License-Identifier: Apache-2.0
"""Two workers of TensorFlow, of which one builds a wider model: all are stopped with both values before they can hang.

python examples/guard_tensorflow.py            worker 1 builds another model, and the guard says so
python examples/guard_tensorflow.py --healthy  all goes well, and nothing is said
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys


def train(healthy: bool) -> None:
    """A worker. With `KEEPSTEP=on` the two lines of the guard are not even needed."""
    import tensorflow as tf

    import keepstep

    keepstep.guard.attach(labels={"[1]": (0, 3)})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = strategy.cluster_resolver.task_id
    width = 32 if rank == 0 or healthy else 48  # the mistake: an option that depends on the worker
    with strategy.scope():
        first = tf.Variable(tf.random.stateless_normal([8, width], (1, 2)), name="first")
        second = tf.Variable(tf.random.stateless_normal([width, 4], (3, 4)), name="second")
    rows = tf.random.stateless_normal([320, 8], (5, rank))
    labels = tf.cast(tf.argmax(rows[:, :4], axis=1), tf.int32)
    batches = tf.data.Dataset.from_tensor_slices((rows, labels)).batch(16)

    def replica(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = tf.nn.relu(x @ first) @ second
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        gradients = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, [first, second]))
        for weight, gradient in zip((first, second), gradients, strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("mean", strategy.run(replica, args=(x, y)), axis=None)

    for x, y in batches:
        loss = train_step(x, y)
    if rank == 0:
        print(f"trained, the last loss is {float(loss):.3f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--healthy", action="store_true")
    options = parser.parse_args()
    if "TF_CONFIG" in os.environ:
        train(options.healthy)
        return 0
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    cluster = {"worker": [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]}
    for each in sockets:
        each.close()
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    workers = []
    for rank in range(2):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
        workers.append(subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **quiet, "TF_CONFIG": config}))
    codes = [worker.wait() for worker in workers]
    if any(codes):
        print("\nThe whole story: keepstep why .keepstep/guard/*")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
