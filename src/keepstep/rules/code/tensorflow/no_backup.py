# SPDX-License-Identifier: Apache-2.0
"""COD220: a multi-worker training that cannot be resumed."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code.tensorflow._tensorflow import MULTI, distributed, fits


@rule(
    id="COD220",
    cause=Cause.CHECKPOINT_CORRUPT_OR_MISSING,
    needs=(CodeCall,),
    severity=Severity.NOTE,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def no_backup(seen: EvidenceSet) -> Findings:
    """A multi-worker `fit` keeps no checkpoint and no backup.

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
    model.fit(dataset.repeat(), epochs=200, steps_per_epoch=500)
    ```

    ## Why it happens
    If one worker fails, all of them stop. Without a checkpoint the training starts again from nothing.

    ## How we know
    `fit` runs under a multi-worker strategy, and the program has no `BackupAndRestore`, no `ModelCheckpoint` and no
    `tf.train.Checkpoint`.

    ## What to do
    ```python
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    backup = tf.keras.callbacks.BackupAndRestore("backup")
    model.fit(
        dataset.repeat(), epochs=200, steps_per_epoch=500, callbacks=[backup]
    )
    ```

    ## When this is wrong
    When the training is short.
    """
    tf = distributed(seen)
    for each in fits(tf, MULTI):
        kept = ("BackupAndRestore", "ModelCheckpoint", "Checkpoint", "CheckpointManager", "save_weights")
        if tf.known.methods_among(each, *kept):
            continue
        yield Found(
            title="this multi-worker training cannot be resumed",
            because="it keeps neither a backup nor a checkpoint; when one worker fails, all work is lost",
            evidence=(each,),
            fixes=(Fix(do="give fit a keras.callbacks.BackupAndRestore with a folder that all workers see"),),
        )
