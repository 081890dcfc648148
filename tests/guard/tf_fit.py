# SPDX-License-Identifier: Apache-2.0
"""One worker of a small `fit`, of Keras 3 or tf_keras (TF_USE_LEGACY_KERAS=1), started by the tests of the guard."""

from __future__ import annotations

import argparse
import hashlib
import json
import os

import numpy as np
import tensorflow as tf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=0.1, help="of rank 1")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--callback", action="store_true")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    rank, several = 0, "TF_CONFIG" in os.environ
    if several:
        rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy()
    keras = tf.keras
    with strategy.scope():
        keras.utils.set_random_seed(7)
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        rate = options.rate if rank == 1 else 0.1
        model.compile(keras.optimizers.SGD(rate), loss, metrics=["accuracy"], run_eagerly=options.eager)
    generator = np.random.default_rng(3)
    x, y = generator.normal(size=(64, 8)).astype("float32"), generator.integers(0, 3, 64)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    if several:
        policy = tf.data.Options()
        policy.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        data = data.with_options(policy)
    seen: list[str] = []
    mine = [keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(f"{epoch} {sorted(logs)}"))]
    if options.callback:
        import keepstep

        mine.append(keepstep.guard.attach().keras())
    history = model.fit(data, epochs=3, validation_data=data, verbose=2 if rank == 0 else 0, callbacks=mine)
    model.save_weights(f"{os.environ.get('KEEPSTEP_DIR', '/tmp')}-{os.getpid()}.weights.h5")
    weights = b"".join(np.asarray(weight).tobytes() for weight in model.get_weights())
    digest = hashlib.sha256(weights + repr(history.history).encode() + repr(seen).encode())
    print(f"rank {rank} finished fit with {len(mine)} callbacks: {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
