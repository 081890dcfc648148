# SPDX-License-Identifier: Apache-2.0
"""COD217: a multi-worker fit whose dataset ends by itself."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code.tensorflow._tensorflow import MULTI, distributed, fits


@rule(
    id="COD217",
    cause=Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE,
    needs=(CodeCall,),
    severity=Severity.NOTE,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def no_repeat(seen: EvidenceSet) -> Findings:
    """A multi-worker `fit` has a dataset that ends, and no `steps_per_epoch`.

    ## What it looks like
    ```python
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    model.fit(
        dataset,
        epochs=3,
        callbacks=[tf.keras.callbacks.BackupAndRestore("backup")],
    )
    ```

    ## Why it happens
    The workers' parts of the data may differ in length. The first one at its end leaves the step that the others
    still wait in. New versions of TensorFlow end the epoch for all workers together; older ones fail or hang.

    ## How we know
    The dataset comes from calls of which none is `repeat`, and `fit` gets no `steps_per_epoch`.

    ## What to do
    ```python
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.Dataset.range(64).repeat().batch(8)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    model.fit(
        dataset,
        epochs=3,
        steps_per_epoch=8,
        callbacks=[tf.keras.callbacks.BackupAndRestore("backup")],
    )
    ```

    ## When this is wrong
    With TensorFlow 2.21, and where all workers have the same number of batches.
    """
    tf = distributed(seen)
    for each in fits(tf, MULTI):
        data = each.fact.argument("x", 0)
        if data is None or each.fact.argument("steps_per_epoch") is not None:
            continue
        made = tf.chain(data.made)
        if tf.is_dataset(data.made) and "repeat" not in made:
            yield Found(
                title="the dataset of a multi-worker fit ends by itself",
                because="it is not repeated, and fit gets no steps_per_epoch: a worker whose part is shorter ends its"
                " epoch before the others",
                evidence=(each,),
                fixes=(Fix(do="call repeat() on the dataset, and give fit the number of steps_per_epoch"),),
            )
