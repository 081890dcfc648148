# SPDX-License-Identifier: Apache-2.0
"""COD218: only the chief saves, where all workers must take part."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._saves import is_by_rank, saves
from keepstep.rules.code.tensorflow._tensorflow import MULTI, Distributed, distributed, exclude_each_other


def _callbacks(tf: Distributed) -> Iterator[Call]:
    """The callbacks that save in ``fit``, on all workers."""
    for each in tf.known.calls("keras.callbacks.ModelCheckpoint", "keras.callbacks.BackupAndRestore"):
        if tf.surely(each, MULTI):
            yield each


@rule(
    id="COD218",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def chief_saves_alone(seen: EvidenceSet) -> Findings:
    """Under `MultiWorkerMirroredStrategy`, only the chief saves the model or the checkpoint.

    ## What it looks like
    ```python
    import json
    import os
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    is_chief = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    if is_chief:
        model.save("model")
    ```

    ## Why it happens
    Saving reads variables that the workers hold in parts, such as statistics of batch normalisation and metrics,
    and adds them up. That is a collective: the chief alone waits for the others for ever, or meets their next step.

    ## How we know
    A condition of the rank stands around the call, and its other side saves nothing.

    ## What to do
    ```python
    import json
    import os
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    is_chief = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("model" if is_chief else "/tmp/not-the-chief")
    ```

    ## When this is wrong
    When no variable of the model is held in parts: then reading takes no collective.
    """
    tf = distributed(seen)
    found = [*saves(tf), *_callbacks(tf)]
    for each in found:
        if not is_by_rank(tf, each):
            continue
        if any(
            exclude_each_other(each.fact, other.fact) for other in found if other.fact.function == each.fact.function
        ):
            continue
        yield Found(
            title=f"only some workers call {each.fact.method}()",
            because="under MultiWorkerMirroredStrategy, saving can read variables that all workers hold in parts; a"
            " worker that saves alone waits for the others",
            evidence=(each,),
            fixes=(
                Fix(
                    do="save on all workers: on the chief to the real path, on each of the others to a path of its own"
                ),
            ),
        )
