# SPDX-License-Identifier: Apache-2.0
"""COD229: an input function takes its context for a dataset."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.tensorflow._tensorflow import FROM_FUNCTION, distributed

_OF_DATASETS = frozenset(
    """
    apply as_numpy_iterator batch cache concatenate enumerate filter flat_map interleave map padded_batch prefetch
    ragged_batch rebatch reduce repeat shard shuffle skip take unbatch window with_options zip
    """.split()
)


@rule(id="COD229", cause=Cause.USER_CODE_EXCEPTION, needs=(CodeCall,), confidence=Confidence.ESTABLISHED)
def context_used_as_dataset(seen: EvidenceSet) -> Findings:
    """The function given to `distribute_datasets_from_function` treats its argument as a dataset.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def make(dataset):
        return dataset.batch(8)

    batches = strategy.distribute_datasets_from_function(make)
    ```

    ## Why it happens
    TensorFlow calls the function once per worker with an `InputContext`. That knows the number of workers and which
    one this is, but holds no data: `'InputContext' object has no attribute 'batch'`.

    ## How we know
    The function is given to the strategy as it is, and calls a method of datasets on its first parameter.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def make(context):
        return tf.data.Dataset.range(64).batch(context.get_per_replica_batch_size(8))

    batches = strategy.distribute_datasets_from_function(make)
    ```

    ## When this is wrong
    When the parameter is assigned a dataset before.
    """
    tf = distributed(seen)
    for given_to in tf.known.methods(*FROM_FUNCTION):
        given = given_to.fact.argument("dataset_fn", 0)
        function = tf.known.functions.get(given.target) if given is not None else None
        if given is None or function is None or "partial" in given.text or not function.fact.parameters:
            continue
        parameters = [name for name in function.fact.parameters if name not in ("self", "cls")]
        name = function.fact.name
        if not parameters or any(each.fact.target == parameters[0] for each in tf.known.assigned_in.get(name, ())):
            continue
        for each in tf.known.inside(name):
            on = each.fact.on
            if on is not None and on.text == parameters[0] and each.fact.method in _OF_DATASETS:
                yield Found(
                    title=f"{parameters[0]} is an InputContext and has no {each.fact.method}()",
                    because=f"`{given_to.fact.method}` (line {given_to.origin.line}) calls"
                    f" {name.rpartition('.')[2]} with an InputContext, which says which worker this is and holds no"
                    " data",
                    evidence=(each, given_to),
                    fixes=(
                        Fix(
                            do="make the dataset in the function, or give a dataset to experimental_distribute_dataset"
                        ),
                    ),
                )
                break
