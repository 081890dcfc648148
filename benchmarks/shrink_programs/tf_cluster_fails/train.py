"""Trains a small classifier on several workers; `start.sh` starts them."""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import numpy as np
import tensorflow as tf

WORDS, LENGTH, CLASSES = 500, 24, 4
PER_WORKER_BATCH = int(os.environ.get("PER_WORKER_BATCH", "16"))
EPOCHS = int(os.environ.get("EPOCHS", "2"))


def cluster():
    config = json.loads(os.environ["TF_CONFIG"])
    return config["cluster"], config["task"]["type"], config["task"]["index"]


def records(count):
    generator = np.random.default_rng(11)
    words = generator.integers(1, WORDS, size=(count, LENGTH))
    labels = (words.sum(axis=1) // LENGTH * CLASSES // WORDS).astype(np.int64)
    return words, np.clip(labels, 0, CLASSES - 1)


def dataset(batch):
    words, labels = records(512)
    data = tf.data.Dataset.from_tensor_slices((words, labels))
    data = data.shuffle(512, seed=3).batch(batch, drop_remainder=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.with_options(options)


def build():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(WORDS, 32),
            tf.keras.layers.GlobalAveragePooling1D(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dropout(0.1),
            tf.keras.layers.Dense(CLASSES),
        ]
    )


def main():
    spec, role, index = cluster()
    print(f"{role} {index} of {len(spec[role])}", flush=True)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    batch = PER_WORKER_BATCH * strategy.num_replicas_in_sync
    data = strategy.experimental_distribute_dataset(dataset(batch))
    with strategy.scope():
        model = build()
        model.build((None, LENGTH))
        optimizer = tf.keras.optimizers.SGD(0.05)
        optimizer.build(model.trainable_variables)
        loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def step(words, labels):
        with tf.GradientTape() as tape:
            each = loss_of(labels, model(words, training=True))
            loss = tf.nn.compute_average_loss(each, global_batch_size=batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def distributed(words, labels):
        losses = strategy.run(step, args=(words, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    for epoch in range(EPOCHS):
        total = 0.0
        for words, labels in data:
            total += float(distributed(words, labels))
        if index == 0:
            print(f"epoch {epoch}: loss {total:.3f}", flush=True)
            model.save_weights("/tmp/classifier.weights.h5")


if __name__ == "__main__":
    main()
