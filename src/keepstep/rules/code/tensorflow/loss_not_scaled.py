# SPDX-License-Identifier: Apache-2.0
"""COD206: the loss of each replica is averaged over its own batch."""

from __future__ import annotations

import re
from typing import Any

from keepstep.model.facts import CodeAssigned, CodeCall
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Severity,
    lazy_pattern,
    rule,
)
from keepstep.rules.code.tensorflow._loss import (
    MEANS,
    Trained,
    averages_itself,
    call_of,
    is_one_per_example,
    is_whole_mean,
    leading_to,
    made_by,
    trained,
)
from keepstep.rules.code.tensorflow._tensorflow import SERVERS, Distributed, distributed, texts_in

_SCALED = re.compile(
    "replicas|global(?!_?(?:step|norm|(?:average|avg|max)_?pool))|compute_average_loss|all_?reduce|merge_call|aggregat"
    "|num_gpus|num_workers|world_size|scale_reg",
    re.I,
)
_OWN_BATCH = lazy_pattern(r"/\s*(tf\.cast\()?\s*(tf\.shape\(|len\(|tf\.size\(|[\w.]+\.shape\[0\])", most=500)


def _is_scaled(tf: Distributed, step: Trained) -> bool:
    """Whether something in the step, or in what makes its loss, knows of other replicas; or nothing is applied."""
    if not any(each.fact.method in ("apply_gradients", "minimize") for each in tf.known.inside(step.function)):
        return True
    makers = [call.fact.target for each in leading_to(tf, step) if (call := call_of(tf, each)) and call.fact.target]
    return any(_SCALED.search(text) for name in (step.function, *makers) for text in texts_in(tf.known, name))


def _unscaled(tf: Distributed, step: Trained) -> Evidence[Any] | None:
    """The statement that makes the loss too large."""
    statements = made_by(tf, step.function, step.loss)
    if not statements or any(each.fact.operator in ("Div", "Mult") for each in statements):
        return None
    last = [each for each in statements if not each.fact.operator][-1:]
    for each in last:
        call = call_of(tf, each)
        if _OWN_BATCH.search(each.fact.value.text):
            return each
        if call is None:
            continue
        if is_whole_mean(call) or is_one_per_example(call) or (averages_itself(tf, call) and tf.is_legacy(call)):
            return each
        inside = tf.known.inside(call.fact.target) if call.fact.target else []
        function = tf.known.functions.get(call.fact.target)
        whole = [mean for mean in inside if is_whole_mean(mean)]
        means = [mean for mean in whole if not mean.fact.assigned or len(whole) == 1]
        if function is not None and means and function.fact.returns and set(function.fact.returns) <= set(MEANS):
            return means[-1]
    return None


@rule(
    id="COD206",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def loss_not_scaled(seen: EvidenceSet) -> Findings:
    """Each replica averages the loss over its own part of the batch, and the optimizer adds the gradients up.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    @tf.function
    def train(x, y):
        strategy.run(step, args=(x, y))
    ```

    ## Why it happens
    The optimizer adds up the gradients of all replicas. If each is that of a mean over the replica's own batch, the
    sum is as many times too large as there are replicas, and the training depends on their number.

    ## How we know
    In a function that `strategy.run` runs, gradients are taken of a mean over everything, or of a sum divided by
    the replica's own batch, and nothing in it divides by the global batch or by the number of replicas. Or they are
    taken of what a loss function of Keras returns, one value per example: that is their sum. With Keras 2, a loss
    object with its default reduction raises an error there; with Keras 3, it divides by the replicas itself.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(
                tf.square(model(x) - y), global_batch_size=64
            )
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    @tf.function
    def train(x, y):
        strategy.run(step, args=(x, y))
    ```

    ## When this is wrong
    When the gradients are averaged elsewhere, or the learning rate was chosen for their sum.
    """
    tf = distributed(seen)
    told = set()
    for step in trained(tf):
        if _is_scaled(tf, step) or tf.nearby(step.gradient, SERVERS):
            continue
        place = _unscaled(tf, step)
        if place is not None and place.origin not in told:
            told.add(place.origin)
            call = call_of(tf, place) if isinstance(place.fact, CodeAssigned) else None
            is_sum = call is not None and is_one_per_example(call)
            yield Found(
                title="the loss has one value per example, and nothing divides by the batch"
                if is_sum
                else "the loss is averaged over the batch of one replica",
                because="the gradient of several values is that of their sum, and the optimizer adds it up over all"
                " replicas: it grows with the batch and with the replicas"
                if is_sum
                else "the optimizer adds up the gradients of all replicas: with a mean per replica, the sum is"
                " as many times too large as there are replicas",
                evidence=(place, step.gradient),
                fixes=(
                    Fix(
                        do="use tf.nn.compute_average_loss(per_example_loss, global_batch_size=...), or divide by"
                        " strategy.num_replicas_in_sync",
                        safety=Safety.CHANGES_RESULTS,
                    ),
                ),
            )
