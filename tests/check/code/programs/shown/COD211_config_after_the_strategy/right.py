# SPDX-License-Identifier: Apache-2.0
"""Trains on several workers; the addresses are arguments."""

import argparse
import json
import os

import tensorflow as tf


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", default=os.environ.get("WORKER_HOSTS", ""))
    parser.add_argument("--index", type=int, default=int(os.environ.get("WORKER_INDEX", "0")))
    return parser.parse_args()


def write_config(args):
    cluster = {"worker": args.hosts.split(",")}
    task = {"type": "worker", "index": args.index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})


def train(strategy, steps=12):
    with strategy.scope():
        w = tf.Variable(tf.zeros([3]))

    def replica_step():
        context = tf.distribute.get_replica_context()
        seed = tf.stack([context.replica_id_in_sync_group, 5])
        x = tf.random.stateless_normal([16, 3], seed=seed)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - tf.reduce_sum(x, axis=1)))
        grad = context.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, w))
        return grad, loss

    @tf.function
    def step():
        grads, losses = strategy.run(replica_step)
        grad = strategy.reduce(tf.distribute.ReduceOp.MEAN, grads, axis=None)
        return grad, strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    for _ in range(steps):
        grad, loss = step()
        w.assign_sub(0.1 * grad)
    return float(loss)


def main():
    args = parse_args()
    write_config(args)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    loss = train(strategy)
    print(f"{strategy.num_replicas_in_sync} replicas, loss {loss:.4f}")


if __name__ == "__main__":
    main()
