# SPDX-License-Identifier: Apache-2.0
"""COD224: the batch cannot be split among the cores of a TPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keepstep.model.facts import CodeCall, Value
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code.tensorflow._sizes import Given, Sizes, sizes
from keepstep.rules.code.tensorflow._tensorflow import TPU, at_line, fits, is_for_tpu

CORES = 8


def _constant(known: Sizes, given: Given) -> Value:
    """The size, or the default of the option that it is."""
    default = known.tf.known.default_of(given.place, given.value) if given.value.literal is None else None
    return given.value if default is None else replace(given.value, literal=default)


def _is_odd(size: Value) -> bool:
    number = size.literal or ""
    return number.isdecimal() and int(number) > 1 and int(number) % CORES != 0


def _found(place: Evidence[Any], size: Value) -> Found:
    return Found(
        title=f"a batch of {size.literal} cannot be split among {CORES} TPU cores",
        because=f"each core gets an equal part of the global batch, and {CORES} does not divide {size.literal}",
        evidence=(place,),
        fixes=(Fix(do="make it a size per core times strategy.num_replicas_in_sync", safety=Safety.CHANGES_RESULTS),),
    )


@rule(
    id="COD224",
    cause=Cause.DATA_BATCH_NOT_DIVISIBLE,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def tpu_batch_not_divisible(seen: EvidenceSet) -> Findings:
    """The global batch for a TPU is not a multiple of eight.

    ## What it looks like
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    dataset = tf.data.Dataset.range(1000).batch(100, drop_remainder=True)
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## Why it happens
    Every core of a TPU gets an equal part of the batch. A TPU of version 2 or 3 has eight cores at least, so a
    global batch that eight does not divide is refused.

    ## How we know
    The size is a number in the program, and the dataset belongs to a program with a TPU strategy.

    ## What to do
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    dataset = tf.data.Dataset.range(1000).batch(128, drop_remainder=True)
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## When this is wrong
    With a slice of fewer cores, or if the dataset is not for the TPU.
    """
    known = sizes(seen)
    told = set()
    for batch in known.batches():
        if (
            batch.fact.function in known.in_functions
            or not is_for_tpu(known.tf, batch)
            or not known.is_trained_on(batch)
        ):
            continue
        for given in known.given(batch):
            constant = _constant(known, given)
            if given.place.origin not in told and _is_odd(constant):
                told.add(given.place.origin)
                yield _found(at_line(given.place, constant.line), constant)
    for fit in fits(known.tf, TPU):
        size = fit.fact.argument("batch_size", 2)
        if size is not None and _is_odd(size):
            yield _found(at_line(fit, size.line), size)
