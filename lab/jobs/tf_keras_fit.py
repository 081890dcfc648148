"""`fit` under MultiWorkerMirroredStrategy: tf_keras with TF_USE_LEGACY_KERAS=1, Keras 3 without."""

from __future__ import annotations

import json
import os

import tensorflow as tf

from lab import faults as fault


class AtStep(tf.keras.callbacks.Callback):
    """Calls the lab's hook at each batch."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank, self.step = rank, 0

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        fault.at(self.step, self.rank)
        self.step += 1


def main() -> None:
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    layers = tf.keras.layers
    with fault.change("scope", strategy.scope, 0, rank)():
        model = tf.keras.Sequential([tf.keras.Input((16,)), layers.Dense(32, "relu"), layers.Dense(10)])
    with strategy.scope():
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, metrics=["accuracy"])
    inputs = tf.random.stateless_normal((1024, 16), (7, 7))
    labels = tf.argmax(inputs[:, :10], axis=1)
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).repeat().batch(32)
    stop = tf.keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.2, verbose=1)
    model.fit(data, epochs=6, steps_per_epoch=20, verbose=2, callbacks=[AtStep(rank), stop])
    print(f"worker {rank}: finished", flush=True)


if __name__ == "__main__":
    main()
