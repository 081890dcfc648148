# SPDX-License-Identifier: Apache-2.0
"""COD202: a model is loaded outside the strategy's scope."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._creation import (
    compiled_in_scope,
    is_also_made_inside,
    is_made_outside,
    used_in_replica,
)
from keepstep.rules.code.tensorflow._tensorflow import (
    Distributed,
    distributed,
    exclude_each_other,
    is_scope,
    is_seen_from,
)

_STRATEGY = re.compile(r"^tensorflow\.distribute\.(Mirrored|MultiWorkerMirrored|TPU|CentralStorage)Strategy$")
_LOADS = frozenset(
    {
        "keras.models.load_model",
        "keras.saving.load_model",
        "tensorflow.saved_model.load",
        "keras.models.model_from_json",
    }
)


def _loading(tf: Distributed) -> Iterator[Call]:
    """The calls that load a model, and those of functions that return a loaded one."""
    yield from tf.known.named(_LOADS.__contains__)
    for name, function in tf.known.functions.items():
        if _LOADS.intersection(function.fact.returns):
            yield from (each for each in tf.known.callers(name) if each.fact.name not in _LOADS)


def _fit(tf: Distributed, loaded: Call) -> Call | None:
    """Where it is fitted, if the variable is else made in a scope, or the program has a strategy and no scope."""
    inside = tf.known.inside(loaded.fact.function)
    has_strategy = any(_STRATEGY.match(each.fact.name) for each in inside)
    is_entered = any(is_scope(block) for each in tf.known.in_file(loaded) for block in each.fact.within)
    if loaded.fact.assigned.startswith("self."):
        return _fit_of_object(tf, loaded) if has_strategy and not is_entered else None
    if not is_also_made_inside(tf, loaded) and (is_entered or not has_strategy):
        return None
    for each in inside:
        on = each.fact.on
        if each.fact.method not in ("fit", "fit_generator", "train_on_batch") or on is None:
            continue
        if on.text == loaded.fact.assigned and each.fact.order > loaded.fact.order:
            return each if not exclude_each_other(each.fact, loaded.fact) else None
    function = tf.known.functions.get(loaded.fact.function)
    returned = function.fact.returns if function is not None else ()
    for each in inside:  # the function returns it, whichever of the two made it
        if each.fact.assigned == loaded.fact.assigned and exclude_each_other(each.fact, loaded.fact):
            return each if loaded.fact.name in returned or each.fact.name in returned else None
    return None


def _fit_of_object(tf: Distributed, loaded: Call) -> Call | None:
    """Where a method of the same class fits the model that it holds."""
    for each in tf.known.methods_in_file(loaded, "fit", "train_on_batch"):
        if each.fact.on is not None and each.fact.on.text == loaded.fact.assigned:
            return each if is_seen_from(loaded.fact.function, each.fact.function, loaded.fact.assigned) else None
    return None


def _returned(tf: Distributed, loaded: Call) -> Call | None:
    """What is made in a scope, where a function returns either that or what it loads outside."""
    function = tf.known.functions.get(loaded.fact.function)
    if loaded.fact.assigned or function is None or loaded.fact.name not in function.fact.returns:
        return None
    if tf.is_in_scope(loaded):
        return None
    for each in tf.known.inside(loaded.fact.function):
        is_made = tf.is_model(each.fact.name, each.fact.target) and each.fact.name in function.fact.returns
        if is_made and any(is_scope(block) for block in each.fact.within):
            return each
    return None


@rule(id="COD202", cause=Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def restored_outside_scope(seen: EvidenceSet) -> Findings:
    """A saved model is loaded outside `strategy.scope()`, and then trained with the strategy.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    model = tf.keras.models.load_model("last.keras")
    with strategy.scope():
        model.compile(optimizer="adam", loss="mse")
    model.fit(tf.data.Dataset.range(8).batch(4))
    ```

    ## Why it happens
    Loading creates the variables. Outside the scope they lie on one device, so the training that goes on from them
    uses one device, or fails.

    ## How we know
    The call that loads stands in no scope, neither here nor where its function is called. The model is trained
    afterwards, in a program that has a strategy.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.models.load_model("last.keras")
        model.compile(optimizer="adam", loss="mse")
    model.fit(tf.data.Dataset.range(8).batch(4))
    ```

    ## When this is wrong
    When the loaded model is meant to be trained on one device.
    """
    tf = distributed(seen)
    for each in _loading(tf):
        use = _returned(tf, each)
        if each.fact.assigned and is_made_outside(tf, each):
            use = compiled_in_scope(tf, each) or used_in_replica(tf, each) or _fit(tf, each)
        if use is not None:
            yield Found(
                title=f"{each.fact.assigned} is loaded outside the strategy's scope",
                because="loading creates the variables, and the strategy knows only those that are created in its"
                f" scope; line {use.origin.line} trains them",
                evidence=(each, use),
                fixes=(Fix(do="load the model inside `with strategy.scope():`"),),
            )
