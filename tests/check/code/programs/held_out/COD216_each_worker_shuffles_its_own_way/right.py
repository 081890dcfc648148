# SPDX-License-Identifier: Apache-2.0
"""Trains one epoch over numbered rows and counts the rows that were seen."""

import tensorflow as tf

ROWS = 128
GLOBAL_BATCH = 16


def make_input(context):
    dataset = tf.data.Dataset.range(ROWS)
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    dataset = dataset.shuffle(ROWS)
    dataset = dataset.map(lambda i: (i, tf.cast(i, tf.float32) / ROWS))
    return dataset.batch(context.get_per_replica_batch_size(GLOBAL_BATCH), drop_remainder=True)


def train(strategy):
    with strategy.scope():
        bias = tf.Variable(0.0)

    def replica_step(ids, values):
        return ids, tf.reduce_sum(2.0 * (bias - values)) / GLOBAL_BATCH

    @tf.function
    def step(ids, values):
        ids, gradients = strategy.run(replica_step, args=(ids, values))
        total = strategy.reduce(tf.distribute.ReduceOp.SUM, gradients, axis=None)
        return strategy.gather(ids, axis=0), total

    seen = set()
    for ids, values in strategy.distribute_datasets_from_function(make_input):
        all_ids, gradient = step(ids, values)
        bias.assign_sub(0.1 * gradient)
        seen.update(all_ids.numpy().tolist())
    return seen


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    seen = train(strategy)
    print("every row seen:", len(seen) == ROWS)


if __name__ == "__main__":
    main()
