# SPDX-License-Identifier: Apache-2.0
"""COD225: the last batch for a TPU may be smaller."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code.tensorflow._sizes import sizes
from keepstep.rules.code.tensorflow._tensorflow import is_for_tpu


@rule(
    id="COD225",
    cause=Cause.DATA_SHAPE_MISMATCH,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def tpu_dynamic_shape(seen: EvidenceSet) -> Findings:
    """A dataset for a TPU is batched without `drop_remainder=True`.

    ## What it looks like
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    dataset = tf.data.Dataset.range(1000).batch(128)
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## Why it happens
    A TPU program is compiled for fixed shapes. Without `drop_remainder=True` the size of a batch is unknown, and
    the last one is smaller: some operations cannot be compiled, and others are compiled once more.

    ## How we know
    The dataset belongs to a program with a TPU strategy, is not repeated before `batch`, and keeps the remainder.

    ## What to do
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    dataset = tf.data.Dataset.range(1000).batch(128, drop_remainder=True)
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## When this is wrong
    When all operations of the model work with a batch of any size, or the dataset is not for the TPU.
    """
    known = sizes(seen)
    for batch in known.batches():
        drop = batch.fact.argument("drop_remainder", 1 if batch.fact.method == "batch" else 3)
        if (drop is not None and drop.literal != "False") or not is_for_tpu(known.tf, batch):
            continue
        if batch.fact.on is None or not known.is_trained_on(batch) or "repeat" in known.tf.chain(batch.fact.on.made):
            continue
        yield Found(
            title="the batches for the TPU have no fixed size",
            because="without drop_remainder=True the last batch is smaller; a TPU compiles for fixed shapes",
            evidence=(batch,),
            fixes=(Fix(do="batch with drop_remainder=True", safety=Safety.CHANGES_RESULTS),),
        )
