# SPDX-License-Identifier: Apache-2.0
"""COD214: an input function batches with the global size."""

from __future__ import annotations

import re

from keepstep.rules.api import (
    Cause,
    CodeCall,
    Confidence,
    Edit,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Severity,
    rule,
)
from keepstep.rules.code._edits import replaced
from keepstep.rules.code.tensorflow._sizes import Given, Sizes, sizes
from keepstep.rules.code.tensorflow._tensorflow import at_line

_CHOICE = re.compile("context|replica|device|distribut|strategy", re.I)


def _is_in_function(known: Sizes, given: Given) -> bool:
    """Whether the size is written where it belongs to this input function, and not to another use of its helpers."""
    if any(_CHOICE.search(block.text) for block in given.batch.fact.within if block.kind in ("if", "else")):
        return False
    return given.place.fact.function in known.in_functions or given.place.fact.name == "functools.partial"


def _edit(known: Sizes, given: Given) -> Edit | None:
    """The part of one replica, where the function has the input context as its only argument."""
    function = known.tf.known.functions.get(given.place.fact.function)
    names = function.fact.parameters if function is not None else ()
    if len(names) != 1 or not ("context" in names[0] or "ctx" in names[0]):
        return None
    text = f"{names[0]}.get_per_replica_batch_size({given.value.text})"
    return replaced(known.tf.known, given.place.origin.source, given.value, text)


@rule(
    id="COD214",
    cause=Cause.DATA_BATCH_NOT_DIVISIBLE,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def global_batch_in_function(seen: EvidenceSet) -> Findings:
    """The function given to `distribute_datasets_from_function` batches with the size of all replicas together.

    ## What it looks like
    ```python
    import tensorflow as tf

    GLOBAL_BATCH = 64
    strategy = tf.distribute.MirroredStrategy()

    def make(context):
        return tf.data.Dataset.range(1024).batch(GLOBAL_BATCH)

    batches = strategy.distribute_datasets_from_function(make)
    ```

    ## Why it happens
    TensorFlow calls the function once per worker and does not split what it returns: each element goes to one
    replica. With the global size every replica gets a whole global batch, and memory and learning rate no longer
    fit.

    ## How we know
    The size that reaches `batch` in the function is named or computed as the global one, and did not go through
    `get_per_replica_batch_size`.

    ## What to do
    ```python
    import tensorflow as tf

    GLOBAL_BATCH = 64
    strategy = tf.distribute.MirroredStrategy()

    def make(context):
        return tf.data.Dataset.range(1024).batch(
            context.get_per_replica_batch_size(GLOBAL_BATCH)
        )

    batches = strategy.distribute_datasets_from_function(make)
    ```

    ## When this is wrong
    When the size is only called global.
    """
    known = sizes(seen)
    told = set()
    for batch in known.batches():
        if batch.fact.function not in known.in_functions:
            continue
        for given in known.given(batch):
            if given.place.origin in told or not _is_in_function(known, given) or not known.is_of_all(given):
                continue
            told.add(given.place.origin)
            yield Found(
                title=f"the input function batches with the global size, {given.value.text}",
                because="what the function returns is not split: each replica gets one of its batches,"
                " so the size must be that of one replica",
                evidence=(at_line(given.place, given.value.line), batch),
                fixes=(
                    Fix(
                        do=f"batch with context.get_per_replica_batch_size({given.value.text})",
                        edit=_edit(known, given),
                        safety=Safety.CHANGES_RESULTS,
                    ),
                ),
            )
