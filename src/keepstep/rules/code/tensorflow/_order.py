# SPDX-License-Identifier: Apache-2.0
"""What a program does before what: settings, strategies, and the first use of devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from keepstep.rules.api import Evidence
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import Distributed, Moment, conditions, exclude_each_other

Direct = Callable[[str], Iterable[Evidence[Any]]]
_USES = re.compile(
    r"^tensorflow\.("
    r"(constant|zeros|ones|eye|fill|range|linspace|convert_to_tensor|Variable|cast|reshape|stack|concat|matmul"
    r"|zeros_like|ones_like|one_hot)"
    r"|random\.(normal|uniform|shuffle|truncated_normal|stateless_\w+)"
    r"|data\.Dataset\.(from_tensor_slices|from_tensors|range|list_files|from_generator)"
    r"|data\.(TFRecordDataset|TextLineDataset|FixedLengthRecordDataset)"
    r"|config\.(experimental\.)?list_logical_devices|test\.(is_gpu_available|gpu_device_name)|saved_model\.load"
    r")$|^keras\.(models\.load_model|applications\.(\w+\.)?[A-Z]\w+|(models\.)?(Sequential|Model)\.build)$"
)


class Before(NamedTuple):
    """Two moments of a program, the earlier one first."""

    first: Moment
    then: Moment


def uses_of_devices(tf: Distributed) -> Direct:
    """The calls that need TensorFlow's runtime, and so start it."""
    return lambda function: tf.known.named_inside(function, _USES.match)


def calls_of(tf: Distributed, names: Iterable[str]) -> Direct:
    chosen = frozenset(names)
    return lambda function: tf.known.named_inside(function, chosen.__contains__)


def in_wrong_order(tf: Distributed, late: list[Call], first: Direct, then: Direct) -> Iterator[Before]:
    """Where ``first`` comes before ``then``, in the functions of ``late`` and in those that call them."""
    for function in sorted(_around(tf, [each.fact.function for each in late])):
        ends = tf.moments(function, then, 3)
        if not ends:
            continue
        starts = [
            each for each in tf.moments(function, first, 3) if each.order < ends[0].order and _is_sure(each, ends[0])
        ]
        if starts:
            yield Before(starts[0], ends[0])


def _is_sure(first: Moment, then: Moment) -> bool:
    """Whether the first one happens whenever the other does: no condition that may choose another way, or return."""
    if exclude_each_other(first.here.fact, then.here.fact):
        return False
    is_inner_sure = first.here is first.there or not conditions(first.there.fact)
    return is_inner_sure and conditions(first.here.fact) <= conditions(then.here.fact)


def _around(tf: Distributed, functions: Iterable[str], hops: int = 3) -> set[str]:
    found = set(functions)
    fresh = found
    for _ in range(hops):
        fresh = {call.fact.function for each in fresh for call in tf.known.callers(each)} - found
        found |= fresh
    return found


def at_import(tf: Distributed, place: Call, direct: Direct) -> list[Evidence[Any]]:
    """What the file of a call does when it is imported, if the call itself stands in a function."""
    if place.fact.function.endswith(".<module>"):
        return []
    module = tf.known.files[place.origin.source].module
    whole = f"{module}.<module>"
    reached = {each.fact.target for each in tf.known.inside(whole)}
    limit = min(
        (each.fact.order for each in tf.known.inside(whole) if each.fact.target in _around(tf, [place.fact.function])),
        default=None,
    )
    return [each for each in direct(whole) if limit is None or each.fact.order < limit or not reached]
