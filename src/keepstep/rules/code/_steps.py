# SPDX-License-Identifier: Apache-2.0
"""Which loop trains, what is done in every turn of it, and which calls exchange data."""

from __future__ import annotations

import re

from keepstep.rules.code._asking import Call, ProjectFacts, blocks

_TRAINS = frozenset({"backward", "apply_gradients", "train_on_batch"})
_GRADIENTS = frozenset({"jax.grad", "jax.value_and_grad"})
COLLECTIVES = frozenset(
    f"{library}.{name}"
    for library, names in (
        (
            "torch.distributed",
            (
                *("all_reduce", "all_gather", "broadcast", "barrier", "reduce", "all_gather_object", "gather"),
                *("broadcast_object_list", "gather_object", "reduce_scatter", "all_to_all", "scatter"),
            ),
        ),
        ("horovod", ("allreduce", "allgather", "broadcast", "barrier", "allgather_object", "broadcast_object")),
        ("accelerate.Accelerator", ("gather", "gather_for_metrics", "reduce", "wait_for_everyone")),
    )
    for name in names
)
"""Calls in which ranks exchange data."""


def is_tried_again(call: Call) -> bool:
    """Whether a call stands in a ``try`` that a loop repeats until it succeeds."""
    tried = blocks(call, "try")
    if not tried or tried[-1].text not in ("return", "break"):
        return False
    around = call.fact.within[: call.fact.within.index(tried[-1])]
    loops = [each for each in around if each.kind in ("for", "while")]
    return bool(loops) and (loops[-1].kind == "while" or loops[-1].text.startswith("range("))


def in_every_step(known: ProjectFacts, call: Call) -> bool:
    """Whether a call stands in a loop with a backward pass in it, and no condition in that loop makes it rare."""
    loops = blocks(call, "for", "while")
    if not loops:
        return False
    innermost = call.fact.within.index(loops[-1])
    if any(each.kind in ("if", "else", "except") for each in call.fact.within[innermost:]):
        return False
    return any(
        each.fact.method == "backward" and loops[-1] in each.fact.within for each in known.inside(call.fact.function)
    )


def trains(known: ProjectFacts, call: Call, hops: int = 2) -> bool:
    """Whether a call is a step of training in any framework, or of a function of the project that makes one."""
    fact = call.fact
    if fact.method in _TRAINS or fact.name in _GRADIENTS:
        return True
    if fact.method in ("run", "fit") and fact.on is not None:
        return (
            re.search("strategy$" if fact.method == "run" else "(model|net|trainer)$", fact.on.text, re.I) is not None
        )
    inside = known.inside(fact.target) if hops and fact.target else ()
    return any(trains(known, each, hops - 1) for each in inside)


def step_around(known: ProjectFacts, call: Call, hops: int = 2) -> Call | None:
    """The step in whose loop a call stands, if each turn comes by it: no condition is on the way."""
    fact = call.fact
    loops = blocks(call, "for", "while")
    first = fact.within.index(loops[-1]) if loops else 0
    if any(each.kind in ("if", "else", "except") for each in fact.within[first:] if "__name__" not in each.text):
        return None
    if loops:
        around = [each for each in known.inside(fact.function) if loops[-1] in each.fact.within]
        return next((each for each in around if each.fact.order != fact.order and trains(known, each)), None)
    callers = known.callers(fact.function) if hops else []
    return next((step for each in callers if (step := step_around(known, each, hops - 1)) is not None), None)
