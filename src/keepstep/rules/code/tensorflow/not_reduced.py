# SPDX-License-Identifier: Apache-2.0
"""COD205: gradients are applied without being added up over the replicas."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import SERVERS, Distributed, distributed, is_reduced

_BY_HAND = ("assign_sub", "assign", "assign_add", "set_weights")
_WEIGHTS = re.compile(r"\.(trainable_)?(weights|variables)\b")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def _skips(apply: Call) -> bool:
    skip = apply.fact.argument("skip_gradients_aggregation")
    aggregate = apply.fact.argument("experimental_aggregate_gradients")
    return (skip is not None and skip.literal == "True") or (aggregate is not None and aggregate.literal == "False")


def _is_of_weights(assign: Call, inside: Sequence[Call]) -> bool:
    """Whether the weights of a model are set: what gathers gradients for an optimizer is not."""
    if assign.fact.on is None or any(each.fact.method == "apply_gradients" for each in inside):
        return False
    if assign.fact.method == "set_weights":
        return True
    loops = [block.text for block in assign.fact.within if block.kind == "for"]
    return any(_WEIGHTS.search(text) for text in (assign.fact.on.text, assign.fact.on.made, *loops))


def _is_by_hand(tf: Distributed, assign: Call) -> bool:
    """Whether a variable gets a value that comes from a gradient, without an optimizer."""
    if assign.fact.method not in _BY_HAND or not assign.fact.arguments:
        return False
    value = assign.fact.arguments[0].value
    inside = tf.known.inside(assign.fact.function)
    if assign.fact.method != "assign_sub" and not _is_of_weights(assign, inside):
        return False
    sources = {call.fact.assigned for call in inside if call.fact.method == "gradient"} - {""}
    for each in tf.known.assigned_in.get(assign.fact.function, ()):
        if each.fact.order < assign.fact.order and sources & set(_NAME.findall(each.fact.value.text)):
            sources.add(each.fact.target)
    names = set(_NAME.findall(value.text))
    loops = [block.text for block in assign.fact.within if block.kind == "for" and "zip(" in block.text]
    names |= {name for text in loops for name in _NAME.findall(text)}
    return ".gradient(" in value.text or bool(names & sources)


@rule(id="COD205", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def not_reduced(seen: EvidenceSet) -> Findings:
    """A replica applies its own gradients: the optimizer should not aggregate them, and nothing else does.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(
            zip(grads, model.trainable_variables), skip_gradients_aggregation=True
        )

    strategy.run(step, args=(batch,))
    ```

    ## Why it happens
    `skip_gradients_aggregation=True` (formerly `experimental_aggregate_gradients=False`) says that the gradients
    were added up before. Where they were not, each replica trains alone on its own data, and the weights drift
    apart.

    ## How we know
    The function that `strategy.run` runs, and what it calls, contains no `all_reduce` and no `merge_call`. It tells
    the optimizer not to aggregate, or sets the model's weights by hand to values that come from its gradients.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
        grads = tape.gradient(loss, model.trainable_variables)
        grads = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, grads
        )
        optimizer.apply_gradients(
            zip(grads, model.trainable_variables), skip_gradients_aggregation=True
        )

    strategy.run(step, args=(batch,))
    ```

    ## When this is wrong
    When a wrapper of the optimizer adds them up, as Horovod's does.
    """
    tf = distributed(seen)
    for each in tf.known.methods("apply_gradients", *_BY_HAND):
        if each.fact.function not in tf.replica or tf.known.imports(each, "horovod") or tf.nearby(each, SERVERS):
            continue
        if not (_skips(each) or _is_by_hand(tf, each)) or is_reduced(tf, each.fact.function):
            continue
        yield Found(
            title="each replica applies its own gradients",
            because="nothing adds the gradients up over the replicas before they are applied: the weights drift apart",
            evidence=(each,),
            fixes=(
                Fix(
                    do="let the optimizer aggregate, or call"
                    " tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, grads) before",
                    safety=Safety.CHANGES_RESULTS,
                ),
            ),
        )
