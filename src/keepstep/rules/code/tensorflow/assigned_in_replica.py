# SPDX-License-Identifier: Apache-2.0
"""COD204: a variable without aggregation is assigned in replicas."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import SERVERS, Distributed, distributed, is_reduced, is_seen_from


def _created(tf: Distributed, assign: Call) -> Call | None:
    """The one call that creates the variable."""
    assert assign.fact.on is not None
    variable = assign.fact.on.text
    found = [
        each
        for each in tf.known.in_file(assign)
        if each.fact.assigned == variable
        and (each.fact.name == "tensorflow.Variable" or each.fact.method == "add_weight")
        and is_seen_from(each.fact.function, assign.fact.function, variable)
    ]
    return found[0] if len(found) == 1 else None


def _drifts(made: Call) -> bool:
    for name in ("aggregation", "synchronization"):
        given = made.fact.argument(name)
        if given is not None and not given.text.endswith("NONE") and given.literal != "None":
            return False
    return not any(argument.name == "**" for argument in made.fact.arguments)


@rule(id="COD204", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def assigned_in_replica(seen: EvidenceSet) -> Findings:
    """A replica function assigns its own value to a variable that has no aggregation.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        mean = tf.Variable(0.0, trainable=False)

    def step(x):
        mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x))

    @tf.function
    def train(x):
        strategy.run(step, args=(x,))
    ```

    ## Why it happens
    Each replica has a copy of the variable. Without `aggregation` the assignment changes only the replica's own
    copy, with a value of its own data, so the copies drift apart. A checkpoint keeps the first copy.

    ## How we know
    The variable is created without `aggregation`, and a function that `strategy.run` runs assigns it a value that
    is not a constant and was not reduced.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        mean = tf.Variable(
            0.0, trainable=False, aggregation=tf.VariableAggregation.MEAN
        )

    def step(x):
        mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x))

    @tf.function
    def train(x):
        strategy.run(step, args=(x,))
    ```

    ## When this is wrong
    When the value is the same on all replicas.
    """
    tf = distributed(seen)
    for each in tf.known.methods("assign", "assign_add", "assign_sub"):
        fact = each.fact
        value = fact.argument("value", 0) or fact.argument("delta", 0)
        if fact.function not in tf.replica or fact.on is None or value is None or value.literal is not None:
            continue
        if "all_reduce" in value.made or is_reduced(tf, fact.function) or tf.nearby(each, SERVERS):
            continue
        made = _created(tf, each)
        if made is not None and _drifts(made):
            yield Found(
                title=f"each replica assigns its own value to {fact.on.text}",
                because=f"the variable was created without aggregation (line {made.origin.line}): every replica changes"
                " its own copy, and the copies drift apart",
                evidence=(each, made),
                fixes=(
                    Fix(
                        do="create it with aggregation=tf.VariableAggregation.MEAN (or SUM), or reduce the value first",
                        safety=Safety.CHANGES_RESULTS,
                    ),
                ),
            )
