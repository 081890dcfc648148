# SPDX-License-Identifier: Apache-2.0
"""COD208: a dataset for all replicas is batched with the size of one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts import CodeCall, Value
from keepstep.rules.api import Cause, Confidence, Edit, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code._edits import replaced
from keepstep.rules.code.tensorflow._sizes import Given, Sizes, sizes
from keepstep.rules.code.tensorflow._tensorflow import at_line

_STRATEGY = re.compile(r"tensorflow\.distribute\.(?:experimental\.)?\w*Strategy")


def _is_split(known: Sizes, given: Given) -> bool:
    """Whether the program gives datasets to the strategy, and this one is not made for one pipeline."""
    function = known.tf.known.functions.get(given.batch.fact.function)
    if function is not None and any("context" in name or name == "ctx" for name in function.fact.parameters):
        return False
    return known.is_trained_on(given.batch)


def _fitted(known: Sizes) -> Iterator[tuple[Call, Value]]:
    """The calls of ``fit`` on arrays with the size of one replica, of models that are made in a scope."""
    for fit in known.tf.known.methods("fit"):
        size = fit.fact.argument("batch_size", 2)
        if size is None or not known.tf.holds_model(fit.fact.on) or not known.tf.has_strategy(fit.origin.source):
            continue
        if known.is_of_one_replica(Given(fit, size, fit)):
            yield fit, size


def _edit(known: Sizes, place: Call, size: Value) -> Edit | None:
    """The size times the number of replicas of the one strategy that is seen there."""
    source, function = place.origin.source, place.fact.function
    names = {
        each.fact.assigned
        for each in known.tf.known.named(_STRATEGY.fullmatch, "Strategy")
        if each.origin.source == source
        and (each.fact.function == function or each.fact.function.endswith(".<module>"))
        and (each.fact.function != function or each.fact.order < place.fact.order)
    }
    (name,) = names if len(names) == 1 else ("",)
    if not re.fullmatch(r"(?:self\.)?[A-Za-z_]\w*", name):
        return None
    return replaced(known.tf.known, source, size, f"{size.text} * {name}.num_replicas_in_sync")


def _found(known: Sizes, call: Call, batch: Call, size: Value) -> Found:
    return Found(
        title=f"the dataset is batched with the size of one replica, {size.text}",
        because="the strategy splits each batch among its replicas, so it must be the global one;"
        " each replica now gets a fraction of its batch",
        evidence=(at_line(call, size.line), batch),
        fixes=(
            Fix(
                do=f"batch with {size.text} * strategy.num_replicas_in_sync",
                edit=_edit(known, call, size),
                safety=Safety.CHANGES_RESULTS,
            ),
        ),
    )


@rule(
    id="COD208",
    cause=Cause.DATA_BATCH_NOT_DIVISIBLE,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def batch_not_global(seen: EvidenceSet) -> Findings:
    """The dataset that the strategy splits among the replicas is batched with the size meant for each of them.

    ## What it looks like
    ```python
    import tensorflow as tf

    PER_REPLICA = 32
    strategy = tf.distribute.MirroredStrategy()
    global_batch = PER_REPLICA * strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.range(1024).batch(PER_REPLICA)
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## Why it happens
    `fit` and `experimental_distribute_dataset` split each batch among the replicas. A batch for one replica leaves
    each with a fraction of it: the devices are not used, and a loss that is divided by the global batch is too
    small.

    ## How we know
    The size is multiplied by the number of replicas elsewhere in the file, or is named after one replica. The
    dataset is not made in a function for `distribute_datasets_from_function`, where that size is right.

    ## What to do
    ```python
    import tensorflow as tf

    PER_REPLICA = 32
    strategy = tf.distribute.MirroredStrategy()
    global_batch = PER_REPLICA * strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.range(1024).batch(global_batch)
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## When this is wrong
    When this dataset is used without the strategy.
    """
    known = sizes(seen)
    told = set()
    for fit, size in _fitted(known):
        yield _found(known, fit, fit, size)
    for batch in known.batches():
        if batch.fact.function in known.in_functions:
            continue
        for given in known.given(batch):
            if given.place.origin in told or not known.is_of_one_replica(given) or not _is_split(known, given):
                continue
            told.add(given.place.origin)
            yield _found(known, given.place, batch, given.value)
