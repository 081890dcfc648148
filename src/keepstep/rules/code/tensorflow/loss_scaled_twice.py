# SPDX-License-Identifier: Apache-2.0
"""COD207: the loss is divided by the number of replicas twice."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._loss import (
    BY_GLOBAL,
    BY_REPLICAS,
    Statement,
    averages_itself,
    call_of,
    is_whole_mean,
    leading_to,
    names_in,
    trained,
)
from keepstep.rules.code.tensorflow._tensorflow import Distributed, distributed


def _scaled_before(tf: Distributed, statement: Statement, statements: list[Statement]) -> Statement | None:
    """The statement that scaled already what this one scales; the statement itself, if it does both."""
    text = statement.fact.value.text
    by_replicas = bool(BY_REPLICAS.search(text)) or (statement.fact.operator == "Div" and "num_replicas" in text)
    by_global = bool(BY_GLOBAL.search(text))
    if "+" in text or statement.fact.operator == "Add" or not (by_replicas or by_global):
        return None
    calls = [each for each in tf.known.inside(statement.fact.function) if each.fact.text in text]
    if (by_replicas and by_global) or any(_is_scaled_by(tf, each, by_global) for each in calls):
        return statement
    names = names_in(statement) | ({statement.fact.target} if statement.fact.operator else set())
    for each in reversed(statements):
        if each.fact.order >= statement.fact.order or each.fact.target not in names or each.fact.operator:
            continue
        call = call_of(tf, each)
        if BY_GLOBAL.search(each.fact.value.text) or BY_REPLICAS.search(each.fact.value.text):
            return each
        if call is not None and _is_scaled_by(tf, call, by_global):
            return each
    return None


def _is_scaled_by(tf: Distributed, call: Call, by_global: bool) -> bool:
    """Whether what a call returns is scaled; a mean over one replica must not be divided by the global batch."""
    if averages_itself(tf, call) or (by_global and is_whole_mean(call)):
        return True
    function = tf.known.functions.get(call.fact.target)
    return function is not None and any(made.endswith("compute_average_loss") for made in function.fact.returns)


@rule(
    id="COD207",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def loss_scaled_twice(seen: EvidenceSet) -> Findings:
    """The loss is divided by the global batch, and by the number of replicas as well.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.square(model(x) - y)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=64)
            loss = loss / strategy.num_replicas_in_sync
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    @tf.function
    def train(x, y):
        strategy.run(step, args=(x, y))
    ```

    ## Why it happens
    Dividing the sum of a replica by the global batch is enough: the gradients of all replicas then add up to those
    of the mean. `compute_average_loss` does that, and so do Keras 3 losses with their default reduction. A second
    division makes the gradients too small.

    ## How we know
    The loss that gradients are taken of, in a function that `strategy.run` runs, goes through two such divisions.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.square(model(x) - y)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=64)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    @tf.function
    def train(x, y):
        strategy.run(step, args=(x, y))
    ```

    ## When this is wrong
    When the second division is a weight of the loss and only looks like the number of replicas.
    """
    tf = distributed(seen)
    told = set()
    for step in trained(tf):
        statements = leading_to(tf, step)
        for each in statements:
            first = _scaled_before(tf, each, statements)
            if first is not None and each.origin not in told:
                told.add(each.origin)
                yield Found(
                    title="the loss is scaled for the number of replicas twice",
                    because=f"`{first.fact.value.text}` (line {first.origin.line}) and this statement both make up"
                    " for the number of replicas: the gradients become too small",
                    evidence=(each, first),
                    fixes=(
                        Fix(
                            do="divide once: by the global batch, or a mean by the number of replicas",
                            safety=Safety.CHANGES_RESULTS,
                        ),
                    ),
                )
