# SPDX-License-Identifier: Apache-2.0
"""COD232: auto-sharding is off, and nothing else gives workers parts of their own."""

from __future__ import annotations

import re

from keepstep.rules.api import (
    Cause,
    CodeAssigned,
    CodeCall,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    rule,
)
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._shards import policies
from keepstep.rules.code.tensorflow._tensorflow import MULTI, Distributed, distributed

_OWN = re.compile(
    r"input_pipeline|num_input|task_id|task_index|worker_i|rank|process_index|shard|split_dataset|replica_id", re.I
)
"""Words of programs in which each worker takes its own part."""


def _is_dealt_out(tf: Distributed, off: Evidence[CodeAssigned]) -> bool:
    """Whether something near the policy may give each worker other data, or the same in another order."""
    for path in tf.known.near(off):
        for each in tf.known.in_path(path):
            fact = each.fact
            if fact.method == "shard" or any(given.value.ranked for given in fact.arguments):
                return True
            if fact.method == "shuffle" and fact.argument("seed", 1) is None:
                return True  # each worker has an order of its own
            if fact.method in ("from_generator", "list_files") or _OWN.search(fact.text):
                return True
    return False


def _trained(tf: Distributed, off: Evidence[CodeAssigned]) -> Call | None:
    """Where the program trains on it: a ``fit``, or a dataset that the strategy distributes."""
    calls = tf.known.methods_in_file(off, "fit", "experimental_distribute_dataset")
    return calls[0] if calls else None


@rule(
    id="COD232",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall, CodeAssigned),
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def autoshard_off_without_shard(seen: EvidenceSet) -> Findings:
    """The auto-shard policy is OFF, and nothing else deals the data out: all workers train on the same batches.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    batches = strategy.experimental_distribute_dataset(dataset.with_options(options))
    ```

    ## Why it happens
    With OFF every worker reads the whole dataset. If all read it in the same order, they take the same batch in
    every step: N workers learn what one would.

    ## How we know
    A program with MultiWorkerMirroredStrategy sets OFF. Its files have no `shard`, nothing that differs by worker, and
    no shuffle without a seed.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    batches = strategy.experimental_distribute_dataset(dataset.with_options(options))
    ```

    ## When this is wrong
    When each worker finds other files under the same names, or the dataset is only evaluated.
    """
    tf = distributed(seen)
    for each in policies(tf, "OFF"):
        use = _trained(tf, each)
        if use is None or not tf.surely(each, MULTI) or _is_dealt_out(tf, each):
            continue
        yield Found(
            title="auto-sharding is OFF, and all workers read the same data",
            because=f"`{use.fact.text}` (line {use.origin.line}) trains on it, and there is no shard() and nothing that"
            " differs by worker",
            evidence=(each, use),
            fixes=(Fix(do="use AutoShardPolicy.DATA, or shard the dataset by worker", safety=Safety.CHANGES_RESULTS),),
        )
