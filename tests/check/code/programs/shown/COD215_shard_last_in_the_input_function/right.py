# SPDX-License-Identifier: Apache-2.0
"""Trains with batch statistics; the input function shards at its end."""

import tensorflow as tf

ROWS = 80
GLOBAL_BATCH = 32


def input_fn(context):
    x = tf.random.stateless_normal([ROWS, 4], seed=(2, 3))
    dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_max(x, axis=1)))
    batch = context.get_per_replica_batch_size(GLOBAL_BATCH)
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.batch(batch)


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.zeros([4]), aggregation=tf.VariableAggregation.MEAN)
        self.rows = tf.Variable(0, aggregation=tf.VariableAggregation.SUM)

    def loss(self, x, y):
        centred = x - tf.reduce_mean(x, axis=0)
        return tf.reduce_mean(tf.square(tf.linalg.matvec(centred, self.w) - y))


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = Model()

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = model.loss(x, y) / strategy.num_replicas_in_sync
        grad = tape.gradient(loss, model.w)
        grad = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, grad)
        model.w.assign_sub(0.1 * grad)
        model.rows.assign_add(tf.shape(x)[0])

    @tf.function
    def epoch(dataset):
        for x, y in dataset:
            strategy.run(replica_step, args=(x, y))

    epoch(strategy.distribute_datasets_from_function(input_fn))
    print(int(model.rows.numpy()), "rows, weights", [round(float(v), 3) for v in model.w.numpy()])


if __name__ == "__main__":
    main()
