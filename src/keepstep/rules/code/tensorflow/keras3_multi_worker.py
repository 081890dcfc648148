# SPDX-License-Identifier: Apache-2.0
"""COD222: Keras 3 cannot fit with a multi-worker strategy."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.tensorflow._keras_version import keras_3
from keepstep.rules.code.tensorflow._tensorflow import MULTI, distributed, fits


@rule(id="COD222", cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def keras3_multi_worker(seen: EvidenceSet) -> Findings:
    """`fit` of Keras 3 runs under `MultiWorkerMirroredStrategy`.

    ## What it looks like
    ```python
    import os
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(
            optimizer="sgd", loss=lambda y, p: tf.keras.ops.mean((y - p) ** 2)
        )
    model.fit(
        dataset.repeat(),
        epochs=3,
        steps_per_epoch=8,
        callbacks=[tf.keras.callbacks.BackupAndRestore("backup")],
    )
    ```

    ## Why it happens
    TensorFlow 2.16 and later bring Keras 3 as `tf.keras`. Its `fit` does not support this strategy: it reads
    variables of other workers and fails.

    ## How we know
    `fit` is called in a program with this strategy, which neither imports `tf_keras` nor sets
    `TF_USE_LEGACY_KERAS`. Its requirements, pyproject.toml, setup.cfg or environment.yml ask for TensorFlow 2.16 or
    Keras 3 at least, or it uses what only Keras 3 has, such as `keras.ops`. Where neither is so, the same lines
    may run with Keras 2, which supports the strategy, and nothing is said.

    ## What to do
    ```python
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(
            optimizer="sgd", loss=lambda y, p: tf.reduce_mean((y - p) ** 2)
        )
    model.fit(
        dataset.repeat(),
        epochs=3,
        steps_per_epoch=8,
        callbacks=[tf.keras.callbacks.BackupAndRestore("backup")],
    )
    ```

    ## When this is wrong
    When TF_USE_LEGACY_KERAS is set outside the program.
    """
    tf = distributed(seen)
    for each in fits(tf, MULTI):
        proof = keras_3(tf, seen, each)
        if proof is not None:
            yield Found(
                title="Keras 3 cannot run fit under MultiWorkerMirroredStrategy",
                because="since TensorFlow 2.16 tf.keras is Keras 3, whose fit fails with several workers: it cannot"
                " read the variables of the others",
                evidence=(each,) if proof is each else (each, proof),
                fixes=(
                    Fix(do="install tf_keras and set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported"),
                    Fix(do="or write the training loop with strategy.run"),
                ),
            )
