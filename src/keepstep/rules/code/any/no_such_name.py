# SPDX-License-Identifier: Apache-2.0
"""COD018: the framework has no such call, or the call no such argument."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, listing, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code._public_names import KEYWORDS, NAMES, ONLY_V1

_OF_V1 = re.compile(
    r"^tensorflow\.(Session|InteractiveSession|ConfigProto|placeholder|get_variable|variable_scope|to_float|app\.|flags\."
    r"|contrib\.|layers\.|logging\.|gfile\.|estimator\.|train\.\w*(Optimizer|get_\w*global_step)|compat\.v1\."
    r"|global_variables_initializer|log$|set_random_seed|metrics\.\w+$)"
)
"""Calls that TensorFlow 2 does not have: the program was written for TensorFlow 1."""


def _owner(name: str) -> tuple[str, str]:
    """The module or class of the table that a call is looked for in, and what is looked for there."""
    owner, _, last = name.rpartition(".")
    return (owner, last) if owner in NAMES and not last.startswith("_") and last != "__call__" else ("", "")


def _missing(known: ProjectFacts) -> Iterator[tuple[Call, str, str]]:
    is_v1: bool | None = None
    for each in known.named(lambda name: _owner(name)[0]):
        owner, last = _owner(each.fact.name)
        if last in NAMES[owner] or each.fact.target:
            continue
        if last in ONLY_V1.get(owner, ()):
            if is_v1 is None:
                is_v1 = any(True for _ in known.named(_OF_V1.match)) or any(
                    name.startswith(("tensorflow.contrib", "tensorflow.compat.v1"))
                    for file in known.files.values()
                    for name in file.imports
                )
            if is_v1:
                continue
        yield each, owner, last


def _is_guarded(call: Call) -> bool:
    """Whether the program knows that the name may be missing."""
    guards = [each.text for each in call.fact.within if each.kind in ("if", "else")]
    return any(re.search(r"hasattr|version|VERSION|getattr", text) for text in guards)


def _written(call: Call) -> str:
    return call.fact.text.partition("(")[0]


@rule(id="COD018", cause=Cause.USER_CODE_EXCEPTION, needs=(CodeCall,), confidence=Confidence.ESTABLISHED)
def no_such_name(seen: EvidenceSet) -> Findings:
    """A call names something that the framework does not have, or gives it an argument that it does not take.

    ## What it looks like
    ```python
    import tensorflow as tf

    def total(x):
        return tf.tpu.cross_replica_sum(x)
    ```

    ## Why it happens
    The name is that of TensorFlow 1, of another framework, or was never there. The line raises `AttributeError` or
    `TypeError`, often only when the first step runs on the cluster, and a broad `except` hides it.

    ## How we know
    By a table of what TensorFlow 2 offers in `tf.tpu`, `tf.distribute` and its strategies and cluster resolvers, and
    JAX in `jax.distributed`. Names of TensorFlow 1 count only where nothing else of the
    project is of TensorFlow 1.

    ## What to do
    ```python
    import tensorflow as tf

    def total(x):
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, x)
    ```

    ## When this is wrong
    When a later version has the name, or the program puts it there itself.
    """
    known = program(seen)
    for each, owner, last in _missing(known):
        if _is_guarded(each):
            continue
        framework = "JAX" if owner.startswith("jax") else "TensorFlow 2"
        old = last in ONLY_V1.get(owner, ())
        offered = sorted(name for name in NAMES[owner] if not name.startswith("experimental_"))
        yield Found(
            title=f"{framework} has no {_written(each)}",
            because="it is a name of TensorFlow 1, which TensorFlow 2 has only below tf.compat.v1"
            if old
            else f"{'JAX 0.10' if framework == 'JAX' else 'TensorFlow 2.21'} has no such name, and no older one that we"
            " know of: the line raises AttributeError",
            evidence=(each,),
            fixes=(Fix(do=f"use what is there: {listing(offered[:8])}"),),
        )
    for each in known.calls(*KEYWORDS):
        allowed = KEYWORDS[each.fact.name]
        wrong = [given.name for given in each.fact.arguments if given.name and given.name != "**"]
        wrong = [name for name in wrong if name not in allowed]
        if wrong and not _is_guarded(each):
            yield Found(
                title=f"{each.fact.method} takes no argument {listing(wrong)}",
                because=f"it takes {listing(sorted(allowed))}: the line raises TypeError",
                evidence=(each,),
                fixes=(Fix(do="give what it takes, by these names"),),
            )
