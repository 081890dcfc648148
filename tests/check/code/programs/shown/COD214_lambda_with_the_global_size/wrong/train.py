# SPDX-License-Identifier: Apache-2.0
"""Trains on all local devices; the pipeline is in data.py.

Shows: differs 2 devices tensorflow: every replica gets a global batch
"""

import data
import tensorflow as tf

GLOBAL_BATCH = 40


def build():
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    return model, tf.keras.optimizers.SGD(0.1)


def main():
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model, optimizer = build()
    inputs = strategy.distribute_datasets_from_function(
        lambda context: data.pipeline(context, GLOBAL_BATCH)  # BUG COD214
    )

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_mean(tf.square(model(x) - y), axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    @tf.function
    def step(x, y):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    history = [float(step(x, y)) for x, y in inputs]
    print(f"{len(history)} steps, first loss {history[0]:.3f}")


if __name__ == "__main__":
    main()
