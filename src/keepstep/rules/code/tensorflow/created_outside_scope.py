# SPDX-License-Identifier: Apache-2.0
"""COD201: something that the strategy trains is created outside its scope."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._creation import (
    compiled_in_scope,
    is_also_made_inside,
    is_made_outside,
    used_in_replica,
)
from keepstep.rules.code.tensorflow._tensorflow import Distributed, conditions, distributed

_OPTIMIZERS = re.compile(r"^keras\.optimizers\.(?!SGD$|schedules|legacy|experimental|get$)[A-Z]\w+$")


def _is_trained(tf: Distributed, name: str, target: str) -> bool:
    """Whether a call may create something that a strategy trains."""
    return name == "tensorflow.Variable" or _OPTIMIZERS.match(name) is not None or tf.is_model(name, target)


def _what_and_use(tf: Distributed, made: Call) -> tuple[str, Call | None]:
    """What is created, and where it meets the strategy."""
    name = made.fact.name
    if name == "tensorflow.Variable":
        return "variable", used_in_replica(tf, made, method=r"assign\w*\(")
    if not conditions(made.fact):
        if _OPTIMIZERS.match(name) and not tf.is_legacy(made):
            return "optimizer", used_in_replica(tf, made, method=r"(apply_gradients|apply|minimize)\(")
        if tf.is_model(name, made.fact.target):
            return "model", compiled_in_scope(tf, made) or used_in_replica(tf, made)
    elif tf.is_model(name, made.fact.target):
        return "model", compiled_in_scope(tf, made)
    return "", None


@rule(id="COD201", cause=Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def created_outside_scope(seen: EvidenceSet) -> Findings:
    """A model, an optimizer or a variable is created outside `strategy.scope()`, and then trained with the strategy.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    with strategy.scope():
        model.compile(optimizer="adam", loss="mse")
    ```

    ## Why it happens
    The scope decides where variables live. One that was created before lies on a single device, and the replicas
    cannot train it: Keras and TensorFlow refuse, or every replica changes the same copy.

    ## How we know
    The call that creates it stands in no scope, neither here nor where its function is called. It is compiled in a
    scope, or used in a function that `strategy.run` runs.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.Input((4,)), tf.keras.layers.Dense(1)]
        )
        model.compile(optimizer="adam", loss="mse")
    ```

    ## When this is wrong
    When the strategy has one replica, or the scope is entered by code that was not read.
    """
    tf = distributed(seen)
    for each in tf.known.aimed(lambda name, target: _is_trained(tf, name, target), tf.files):
        if not each.fact.assigned:
            continue
        what, use = _what_and_use(tf, each)
        if use is None or not is_made_outside(tf, each) or is_also_made_inside(tf, each):
            continue
        yield Found(
            title=f"{each.fact.assigned} is created outside the strategy's scope",
            because=f"the strategy knows only what is created in its scope; this {what} is not, and line"
            f" {use.origin.line} uses it with the strategy",
            evidence=(each, use),
            fixes=(Fix(do=f"create {each.fact.assigned} inside `with strategy.scope():`"),),
        )
