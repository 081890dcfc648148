# SPDX-License-Identifier: Apache-2.0
"""COD221: a distributed step runs eagerly."""

from __future__ import annotations

import re
from typing import Any

from keepstep.rules.api import Cause, CodeCall, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code.tensorflow._tensorflow import Distributed, at_line, conditions, distributed

_STRATEGY = re.compile(r"^tensorflow\.distribute\.\w+Strategy(V2)?$")


def _is_distributed(tf: Distributed, place: Evidence[Any]) -> bool:
    """Whether the model is compiled in a scope, or this very file creates a strategy."""
    if isinstance(place.fact, CodeCall) and tf.is_in_scope(place):
        return True
    here = tf.known.in_file(place)
    if any(each.fact.method == "run_functions_eagerly" and "False" in each.fact.text for each in here):
        return False
    return any(_STRATEGY.match(each.fact.name) for each in here)


def _found(place: Evidence[Any]) -> Found:
    return Found(
        title="the distributed training runs eagerly",
        because="with run_eagerly every operation of every replica goes through Python, one after the other; on a"
        " TPU it fails",
        evidence=(place,),
        fixes=(Fix(do="leave run_eagerly out, or make it an option for debugging"),),
    )


@rule(
    id="COD221",
    cause=Cause.SLOW_RECOMPILATION,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def run_eagerly(seen: EvidenceSet) -> Findings:
    """A distributed training runs its steps eagerly.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
    ```

    ## Why it happens
    `run_eagerly` is for debugging: Python runs every operation of every replica one by one, and the replicas take
    turns. On a TPU it is not possible at all.

    ## How we know
    The argument is the constant `True`, under no condition, and the model belongs to a strategy.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
    ```

    ## When this is wrong
    When the program is there for debugging.
    """
    tf = distributed(seen)
    for each in tf.known.methods("compile", "run_functions_eagerly", "experimental_run_functions_eagerly"):
        given = each.fact.argument("run_eagerly", None if each.fact.method == "compile" else 0)
        if given is None or given.literal != "True" or conditions(each.fact) or not _is_distributed(tf, each):
            continue
        yield _found(at_line(each, given.line))
    for setting in tf.known.assigned_to(".run_eagerly"):
        if not setting.fact.target.endswith(".run_eagerly") or setting.fact.value.literal != "True":
            continue
        if not conditions(setting.fact) and _is_distributed(tf, setting):
            yield _found(setting)
