# SPDX-License-Identifier: Apache-2.0
"""Trains a translation toy; the batch size on the command line is per device.

From: https://github.com/OpenNMT/OpenNMT-tf/pull/540
Shows: differs 2 devices tensorflow: each replica gets half a batch, and the loss is halved
"""

import argparse

import numpy as np
import tensorflow as tf


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size-per-replica", type=int, default=16)
    parser.add_argument("--steps", type=int, default=8)
    return parser.parse_args()


def sentences(count):
    rng = np.random.default_rng(21)
    tokens = rng.integers(1, 20, size=(count, 6))
    return tokens.astype("int32"), (tokens.sum(axis=1) % 20).astype("int32")


def main():
    args = parse_args()
    strategy = tf.distribute.MirroredStrategy()
    global_batch = args.batch_size_per_replica * strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.from_tensor_slices(sentences(1024)).repeat()
    dataset = dataset.batch(args.batch_size_per_replica)  # BUG COD208
    dist_dataset = strategy.experimental_distribute_dataset(dataset)

    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input((6,), dtype="int32"),
                tf.keras.layers.Embedding(20, 8, embeddings_initializer="zeros"),
                tf.keras.layers.GlobalAveragePooling1D(),
                tf.keras.layers.Dense(20, kernel_initializer="zeros"),
            ]
        )
        optimizer = tf.keras.optimizers.SGD(0.1)

    def replica_step(tokens, target):
        with tf.GradientTape() as tape:
            logits = model(tokens, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=global_batch)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    @tf.function
    def train_step(tokens, target):
        losses = strategy.run(replica_step, args=(tokens, target))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    batches = iter(dist_dataset)
    losses = [float(train_step(*next(batches))) for _ in range(args.steps)]
    print(f"first loss {losses[0]:.3f} (log 20 is {np.log(20):.3f})")


if __name__ == "__main__":
    main()
