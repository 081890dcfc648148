# SPDX-License-Identifier: Apache-2.0
"""COD209: Python side effects in a traced step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts import CodeAssigned, CodeCall, Value
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import Distributed, distributed, is_seen_from

_PLAIN = re.compile(r"(self\.)?[A-Za-z_]\w*")


def _shown(text: str) -> str:
    return text if len(text) < 50 else text[:47] + "..."


def _is_in_step(tf: Distributed, function: str) -> bool:
    """Whether it is traced, and belongs to a step of replicas."""
    return function in tf.traced and function in tf.replica


def _is_effect(tf: Distributed, call: Call) -> bool:
    fact = call.fact
    if any("eager" in block.text or "init_scope" in block.text for block in fact.within):
        return False
    if fact.method == "numpy":
        return fact.on is not None and not fact.arguments
    if fact.name == "print":
        return any(_is_tensor(tf, each.value, fact.function) for each in fact.arguments)
    if any(fact.on is not None and fact.on.text in block.text for block in fact.within) or "Variable(" in fact.text:
        return False  # made once, when the step is traced, as variables must be
    if fact.on is None or not _PLAIN.fullmatch(fact.on.text) or all(each.value.literal for each in fact.arguments):
        return False
    function = tf.known.functions.get(fact.function)
    if function is None or fact.on.text in function.fact.parameters:
        return False
    here = tf.known.assigned_in.get(fact.function, ())
    if any(each.fact.target == fact.on.text for each in here):
        return False
    return any(
        each.fact.target == fact.on.text
        and each.fact.value.text.startswith(("[", "list("))
        and is_seen_from(each.fact.function, fact.function, fact.on.text)
        for each in tf.known.assigned_in_file(call)
    )


def _is_tensor(tf: Distributed, value: Value, function: str) -> bool:
    """Whether it is what the step was given or what TensorFlow computed in it."""
    of = tf.known.functions.get(function)
    return value.made.startswith("tensorflow.") or (of is not None and value.text in of.fact.parameters)


def _is_outer(tf: Distributed, place: Evidence[CodeAssigned]) -> bool:
    """Whether it changes an attribute, or a variable of the function or file around it."""
    if place.fact.on is not None:
        return place.fact.target.startswith("self.")
    function = tf.known.functions.get(place.fact.function)
    own = [
        each
        for each in tf.known.assigned_in.get(place.fact.function, ())
        if each.fact.target == place.fact.target and not each.fact.operator
    ]
    return not own and function is not None and place.fact.target not in function.fact.parameters


def _is_stored(tf: Distributed, stored: Evidence[CodeAssigned]) -> bool:
    """Whether a tensor is put into a dictionary that was made outside the step."""
    fact = stored.fact
    if fact.on is None or fact.operator or not fact.target.startswith(f"{fact.on.text}["):
        return False
    if not _is_tensor(tf, fact.value, fact.function) or not _PLAIN.fullmatch(fact.on.text):
        return False
    function = tf.known.functions.get(fact.function)
    if function is None or fact.on.text in function.fact.parameters:
        return False
    return any(
        each.fact.target == fact.on.text
        and each.fact.value.text.startswith(("{", "dict("))
        and each.fact.function != fact.function
        and is_seen_from(each.fact.function, fact.function, fact.on.text)
        for each in tf.known.assigned_in_file(stored)
    )


def _stored(tf: Distributed) -> Iterator[Evidence[CodeAssigned]]:
    for function in tf.known.functions:
        if _is_in_step(tf, function):
            yield from (each for each in tf.known.assigned_in.get(function, ()) if _is_stored(tf, each))


def _is_counter(tf: Distributed, counted: Evidence[CodeAssigned]) -> bool:
    fact = counted.fact
    if not _is_outer(tf, counted):
        return False
    return any(
        each.fact.target == fact.target
        and each.fact.value.literal is not None
        and not each.fact.operator
        and is_seen_from(each.fact.function, fact.function, fact.target)
        for each in tf.known.assigned_in_file(counted)
    )


@rule(
    id="COD209",
    cause=Cause.SYNC_RACE_ON_SHARED_STATE,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def side_effect_in_replica(seen: EvidenceSet) -> Findings:
    """A traced training step changes Python objects, prints tensors, or calls `.numpy()`.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    losses = []

    def step(x):
        loss = tf.reduce_sum(model(x)) / 64
        losses.append(loss)
        return loss

    @tf.function
    def train(x):
        return strategy.run(step, args=(x,))
    ```

    ## Why it happens
    TensorFlow traces the step once and then runs the graph. Python runs only while it traces: once per replica,
    with symbolic tensors that have no value. A list gets one entry however many steps there are, a counter stops at
    one, and `.numpy()` raises an error.

    ## How we know
    The line stands in a function that `tf.function` traces, in a program with a strategy.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    losses = []

    def step(x):
        return tf.reduce_sum(model(x)) / 64

    @tf.function
    def train(x):
        return strategy.run(step, args=(x,))

    losses.append(train(batch))
    ```

    ## When this is wrong
    When the function is never traced, because functions run eagerly, or the effect is meant for the time of
    tracing.
    """
    tf = distributed(seen)
    for each in (*tf.known.methods("numpy", "append", "extend"), *tf.known.calls("print")):
        if not _is_in_step(tf, each.fact.function) or not _is_effect(tf, each):
            continue
        yield Found(
            title=f"`{_shown(each.fact.text)}` runs only while the step is traced",
            because="tf.function runs this Python once per trace, with tensors that have no value yet;"
            " in the steps that follow it does not run at all",
            evidence=(each,),
            fixes=(
                Fix(do="return the tensor from the step, and use it outside; in the step, use tf.print or tf.Variable"),
            ),
        )
    for counted in (*tf.known.assigned_with("Add"), *tf.known.assigned_with("Sub")):
        if _is_in_step(tf, counted.fact.function) and _is_counter(tf, counted):
            yield Found(
                title=f"{counted.fact.target} is counted only while the step is traced",
                because="tf.function runs this Python once per trace, not once per step",
                evidence=(counted,),
                fixes=(Fix(do="count outside the step, or in a tf.Variable with assign_add"),),
            )
    for stored in _stored(tf):
        yield Found(
            title=f"{stored.fact.target} is set only while the step is traced",
            because="tf.function runs this Python once per trace: it stores a symbolic tensor, not a value",
            evidence=(stored,),
            fixes=(Fix(do="return the value from the step"),),
        )
