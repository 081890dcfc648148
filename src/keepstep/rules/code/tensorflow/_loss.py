# SPDX-License-Identifier: Apache-2.0
"""How the loss of a replica is made, statement by statement, up to the one that gradients are taken of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from keepstep.rules.api import CodeAssigned, Evidence, lazy_pattern
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import Distributed, is_seen_from

Statement = Evidence[CodeAssigned]
MEANS = ("tensorflow.reduce_mean", "tensorflow.math.reduce_mean", "keras.ops.mean", "keras.backend.mean")
BY_GLOBAL = lazy_pattern(
    r"compute_average_loss\(|/\s*(tf\.cast\()?\s*[\w.]*global\w*|1(\.0?)?\s*/\s*[\w.]*global\w*", re.I, most=500
)
BY_REPLICAS = lazy_pattern(r"/\s*(tf\.cast\()?\s*[\w.()]*num_replicas|1(\.0?)?\s*/\s*[\w.()]*num_replicas", most=500)
_NO_LOSSES = ("get", "serialize", "deserialize", "add_loss", "get_regularization_losses")
_NAME = re.compile(r"(?<![\w.])(?:self\.)?[A-Za-z_]\w*")


class Trained(NamedTuple):
    """A function that runs in replicas and takes gradients of a loss."""

    function: str
    gradient: Call
    loss: str


def trained(tf: Distributed) -> Iterator[Trained]:
    """The functions of replicas that take gradients of a variable."""
    for each in tf.known.methods("gradient"):
        target = each.fact.argument("target", 0)
        if each.fact.function in tf.replica and target is not None and _NAME.fullmatch(target.text):
            yield Trained(each.fact.function, each, target.text)


def made_by(tf: Distributed, function: str, variable: str) -> list[Statement]:
    """The assignments to a variable, in order."""
    return [each for each in tf.known.assigned_in.get(function, ()) if each.fact.target == variable]


def leading_to(tf: Distributed, step: Trained) -> list[Statement]:
    """All statements that the loss comes from."""
    found: dict[int, Statement] = {}
    pending, known = [step.loss], {step.loss}
    while pending and len(found) < 40:
        for each in made_by(tf, step.function, pending.pop()):
            if each.fact.order not in found and each.fact.order < step.gradient.fact.order:
                found[each.fact.order] = each
                fresh = names_in(each) - known
                known |= fresh
                pending += sorted(fresh)
    return [found[order] for order in sorted(found)]


def names_in(statement: Statement) -> set[str]:
    return set(_NAME.findall(statement.fact.value.text))


def call_of(tf: Distributed, statement: Statement) -> Call | None:
    """The call whose result the statement assigns."""
    for each in tf.known.inside(statement.fact.function):
        if each.fact.assigned == statement.fact.target and each.fact.text == statement.fact.value.text:
            return each
    return None


def is_whole_mean(call: Call) -> bool:
    """Whether a call averages over everything, the batch included."""
    axis = call.fact.argument("axis", 1)
    return call.fact.name in MEANS and (axis is None or axis.literal == "None")


def is_one_per_example(call: Call) -> bool:
    """Whether a call is one of Keras' loss functions, which return a value for each example."""
    return re.fullmatch(r"keras\.losses\.[a-z]\w+", call.fact.name) is not None and call.fact.method not in _NO_LOSSES


def averages_itself(tf: Distributed, call: Call) -> Call | None:
    """Where the loss object was created that this calls, if it averages over the batch by default."""
    if not re.fullmatch(r"keras\.losses\.[A-Z]\w+\.__call__", call.fact.name):
        return None
    variable = call.fact.text.partition("(")[0]
    for each in tf.known.in_file(call):
        if each.fact.assigned == variable and each.fact.name == call.fact.name.removesuffix(".__call__"):
            reduction = each.fact.argument("reduction")
            if is_seen_from(each.fact.function, call.fact.function, variable):
                is_default = reduction is None or re.search("AUTO|SUM_OVER|sum_over|auto", reduction.text)
                return each if is_default else None
    return None
