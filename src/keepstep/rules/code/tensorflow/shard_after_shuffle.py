# SPDX-License-Identifier: Apache-2.0
"""COD216: a dataset is sharded after a shuffle without a seed."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import Distributed, distributed, sharded_after


def _shuffles(call: Call, shard: Call) -> bool:
    """Whether a call without a seed is on the way to the shard."""
    assert shard.fact.on is not None
    way = shard.fact.on.made
    if call.fact.function != shard.fact.function or not (way == call.fact.name or way.startswith(call.fact.name + ".")):
        return False
    if call.fact.order > shard.fact.order or call.fact.argument("seed", 2 if "list_files" in call.fact.name else 1):
        return False
    if call.fact.method == "list_files":
        shuffle = call.fact.argument("shuffle", 1)
        return shuffle is None or shuffle.literal == "True"
    return call.fact.method == "shuffle"


def _shuffled_list(tf: Distributed, shard: Call) -> Call | None:
    """Where Python shuffles the list that the dataset is made of, without a seed."""
    inside = [each for each in tf.known.inside(shard.fact.function) if each.fact.order < shard.fact.order]
    if tf.known.among(shard, "random.seed", "numpy.random.seed"):
        return None
    sources = [each for each in inside if each.fact.method in ("from_tensor_slices", "TFRecordDataset")]
    given = {each.fact.arguments[0].value.text for each in sources if each.fact.arguments}
    for each in inside:
        is_shuffle = each.fact.name in ("random.shuffle", "numpy.random.shuffle") and len(each.fact.arguments) == 1
        if is_shuffle and each.fact.arguments[0].value.text in given:
            return each
    return None


def _is_seeded(tf: Distributed, place: Call) -> bool:
    seeds = ("tensorflow.random.set_seed", "tensorflow.set_random_seed", "keras.utils.set_random_seed")
    return bool(tf.known.among(place, *seeds, "tensorflow.compat.v1.set_random_seed"))


@rule(
    id="COD216",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def shard_after_shuffle(seen: EvidenceSet) -> Findings:
    """The dataset is sharded after a shuffle that every worker does in its own order.

    ## What it looks like
    ```python
    import tensorflow as tf

    def make(context, files):
        dataset = tf.data.Dataset.from_tensor_slices(files).shuffle(100)
        return dataset.shard(
            context.num_input_pipelines, context.input_pipeline_id
        )
    ```

    ## Why it happens
    `shard` takes every n-th element. If each worker shuffles in an order of its own, the parts overlap: some
    elements are seen by several workers, and some by none. `list_files` shuffles too, unless it gets `shuffle=False`.

    ## How we know
    The chain of calls contains a `shuffle` without a seed before this `shard`, and the program sets no global seed.

    ## What to do
    ```python
    import tensorflow as tf

    def make(context, files):
        dataset = tf.data.Dataset.from_tensor_slices(files)
        dataset = dataset.shard(
            context.num_input_pipelines, context.input_pipeline_id
        )
        return dataset.shuffle(100)
    ```

    ## When this is wrong
    When a seed is set in code that was not read.
    """
    tf = distributed(seen)
    for each in tf.known.methods("shard"):
        before = sharded_after(tf, each)
        if not before or each.fact.on is None or _is_seeded(tf, each):
            continue
        shuffle = next((call for call in tf.known.in_file(each) if _shuffles(call, each)), None)
        shuffle = shuffle or _shuffled_list(tf, each)
        if shuffle is not None:
            yield Found(
                title="the dataset is sharded after a shuffle without a seed",
                because="each worker shuffles in its own order and then takes every n-th element: some are read by"
                " several workers, and some by none",
                evidence=(each, shuffle),
                fixes=(
                    Fix(do="call shard() before shuffle(), or give the shuffle a seed", safety=Safety.CHANGES_RESULTS),
                ),
            )
