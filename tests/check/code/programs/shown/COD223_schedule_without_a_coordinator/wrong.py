# SPDX-License-Identifier: Apache-2.0
"""Trains with parameter servers; the chief drives the workers.

Shows: nothing here (the chief computes every step itself, and the workers stay idle)
"""

import json
import os

import tensorflow as tf

STEPS = 12


def role():
    return json.loads(os.environ["TF_CONFIG"])["task"]["type"]


def serve(resolver):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()


def train(resolver):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        w = tf.Variable(tf.zeros([2]))

    def replica_fn():
        x = tf.random.stateless_normal([32, 2], seed=(4, 2))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w - 3.0)))
        w.assign_sub(0.2 * tape.gradient(loss, w))
        return loss

    @tf.function
    def step():
        return strategy.run(replica_fn)

    for _ in range(STEPS):
        step()  # BUG COD223
    print("trained", [round(float(v), 1) for v in w.numpy()])


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if role() in ("worker", "ps"):
        serve(resolver)
    else:
        train(resolver)


if __name__ == "__main__":
    main()
