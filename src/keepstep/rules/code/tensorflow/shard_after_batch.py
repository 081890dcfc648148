# SPDX-License-Identifier: Apache-2.0
"""COD215: batches are dealt out instead of examples."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code.tensorflow._tensorflow import BATCHES, distributed, sharded_after


@rule(
    id="COD215",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def shard_after_batch(seen: EvidenceSet) -> Findings:
    """The dataset is sharded after it was batched.

    ## What it looks like
    ```python
    import tensorflow as tf

    def make(context):
        dataset = tf.data.Dataset.range(80).batch(16)
        return dataset.shard(
            context.num_input_pipelines, context.input_pipeline_id
        )
    ```

    ## Why it happens
    Whole batches are dealt out. Where their number is no multiple of the number of workers, some worker has one
    less and waits, or ends, in the last step; and every worker reads and batches the data of all others, only to
    throw it away.

    ## How we know
    The chain of calls that made the dataset contains `batch` before this `shard`.

    ## What to do
    ```python
    import tensorflow as tf

    def make(context):
        dataset = tf.data.Dataset.range(80)
        return dataset.shard(
            context.num_input_pipelines, context.input_pipeline_id
        ).batch(16)
    ```

    ## When this is wrong
    When the batches are meant as units, and all workers get the same number of them.
    """
    tf = distributed(seen)
    for each in tf.known.methods("shard"):
        before = sharded_after(tf, each)
        if "unbatch" in before:
            before = before[len(before) - before[::-1].index("unbatch") :]
        batches = [at for at, name in enumerate(before) if name in BATCHES]
        if batches and "repeat" not in before[: batches[0]]:
            yield Found(
                title="the dataset is sharded after it was batched",
                because="whole batches are dealt out to the workers: the last round may leave some without one, and"
                " each worker makes all batches only to drop most of them",
                evidence=(each,),
                fixes=(Fix(do="call shard() before batch(), as early as possible", safety=Safety.CHANGES_RESULTS),),
            )
