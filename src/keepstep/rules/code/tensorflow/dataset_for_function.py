# SPDX-License-Identifier: Apache-2.0
"""COD213: a dataset is given where a function is needed."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Value, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import FROM_FUNCTION, Distributed, distributed, is_seen_from


def _is_dataset(tf: Distributed, place: Call, given: Value) -> bool:
    made = [
        each
        for each in tf.known.in_file(place)
        if (each.fact.text == given.text and each.fact.function == place.fact.function)
        or (each.fact.assigned == given.text and is_seen_from(each.fact.function, place.fact.function, given.text))
    ]
    if not made or given.made == "functools.partial":  # it is the function itself
        return False
    last = made[-1]
    function = tf.known.functions.get(last.fact.target or tf.by_method(last))
    if function is None:
        return tf.is_dataset(last.fact.name)
    return bool(function.fact.returns) and all(
        tf.is_dataset(each) and not each.startswith(function.fact.name) for each in function.fact.returns
    )


@rule(id="COD213", cause=Cause.USER_CODE_EXCEPTION, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def dataset_for_function(seen: EvidenceSet) -> Findings:
    """`distribute_datasets_from_function` gets a dataset, not a function that makes one.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    batches = strategy.distribute_datasets_from_function(dataset)
    ```

    ## Why it happens
    The strategy calls the function once per worker, with an `InputContext`. A dataset cannot be called, so the
    program fails.

    ## How we know
    The argument is a dataset, or a call of a function that returns one.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)
    batches = strategy.distribute_datasets_from_function(lambda context: dataset)
    ```

    ## When this is wrong
    When the object can be called after all.
    """
    tf = distributed(seen)
    for each in tf.known.methods(*FROM_FUNCTION):
        given = each.fact.argument("dataset_fn", 0)
        if given is None or not _is_dataset(tf, each, given):
            continue
        yield Found(
            title=f"{each.fact.method} gets a dataset, not a function",
            because=f"`{given.text}` is a dataset; the strategy calls its argument once per worker to get one",
            evidence=(each,),
            fixes=(
                Fix(do="give it a function of the input context, or use experimental_distribute_dataset for a dataset"),
            ),
        )
