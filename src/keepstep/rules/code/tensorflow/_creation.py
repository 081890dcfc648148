# SPDX-License-Identifier: Apache-2.0
"""Where a thing that a strategy must know of is made, and how it is used with the strategy later."""

from __future__ import annotations

import re

from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import Distributed, conditions, is_scope, is_seen_from

_PART = re.compile(r"^keras\.|^tensorflow\.Module$|Model$|Layer$|Module$|Network$")


def is_made_outside(tf: Distributed, made: Call) -> bool:
    """Whether it is made in no scope: not here, not where this function is called, not in what is called."""
    if not re.fullmatch(r"(self\.)?\w+", made.fact.assigned) or tf.is_in_scope(made):
        return False
    if any(each.fact.name == "tensorflow.distribute.get_strategy" for each in tf.known.inside(made.fact.function)):
        return False  # whoever calls this has entered the scope
    function = tf.known.functions.get(made.fact.function)
    if function is not None and any(_PART.search(base) for base in function.fact.bases):
        return False  # it is a part of a model, which is made elsewhere
    inside = tf.known.inside(made.fact.target) if made.fact.target else []
    return not any(is_scope(block) for each in inside for block in each.fact.within)


def is_also_made_inside(tf: Distributed, made: Call) -> bool:
    """Whether the variable gets its value in a scope elsewhere."""
    return any(
        each.fact.assigned == made.fact.assigned and each is not made and tf.is_in_scope(each)
        for each in tf.known.in_file(made)
    )


def compiled_in_scope(tf: Distributed, made: Call) -> Call | None:
    """Where the model is compiled or fitted in a scope, if that follows."""
    for each in tf.known.methods_in_file(made, "compile", "fit"):
        fact = each.fact
        if fact.on is None or fact.on.text != made.fact.assigned:
            continue
        follows = fact.function != made.fact.function or fact.order > made.fact.order
        if follows and any(is_scope(block) for block in fact.within) and _is_same(made, each):
            return each
    return None


def used_in_replica(tf: Distributed, made: Call, *, method: str = r"\w+") -> Call | None:
    """Where a function that runs in replicas calls it, or a method of it."""
    if not tf.has_strategy(made.origin.source):
        return None
    variable = re.compile(rf"(?<![\w.]){re.escape(made.fact.assigned)}(\(|\.{method})")
    for function in tf.known.functions_in[made.origin.source]:
        name = function.fact.name
        if name not in tf.replica or name == made.fact.function or made.fact.assigned in function.fact.parameters:
            continue
        if is_seen_from(made.fact.function, name, made.fact.assigned):
            for each in tf.known.inside(name):
                if variable.search(each.fact.text):
                    return each
    return None


def _is_same(made: Call, use: Call) -> bool:
    return is_seen_from(made.fact.function, use.fact.function, made.fact.assigned) and conditions(
        made.fact
    ) <= conditions(use.fact)
