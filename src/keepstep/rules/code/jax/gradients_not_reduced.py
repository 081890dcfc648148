# SPDX-License-Identifier: Apache-2.0
"""COD312: each device applies its own gradients."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts import CodeFunction
from keepstep.rules.api import Cause, CodeCall, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program

_GRADIENTS = ("jax.grad.__call__", "jax.value_and_grad.__call__")
_AVERAGES = ("jax.lax.pmean", "jax.lax.psum")
_UPDATES = ("apply_gradients", "apply_updates")
_REDUCED = re.compile(
    r"psum|pmean|all_gather|all_reduce|allreduce|cross_replica|reduce_scatter|sync|average|mean_grad", re.I
)
_SHOWN = re.compile(r"loss|acc(uracy)?|metrics?|aux|err(or)?|stats|logs?", re.I)
"""What is averaged to be shown. The gradients are another thing."""
_AXIS = re.compile(r"axis_name\s*=\s*[\"'\w]")


def _mapped(known: ProjectFacts) -> Iterator[tuple[Evidence[CodeFunction], str]]:
    """The functions that ``pmap`` maps over an axis with a name, and how that is written."""
    for each in known.functions.values():
        for text in each.fact.decorated:
            if "jax.pmap" in each.fact.decorators and "pmap" in text and _AXIS.search(text):
                yield each, text
    for call in known.calls("jax.pmap"):
        given = call.fact.argument("fun", 0)
        function = known.functions.get(given.target) if given is not None else None
        axis = call.fact.argument("axis_name", 1)
        if function is None or axis is None or axis.literal == "None" or _is_given_more(known, call):
            continue
        yield function, call.fact.text


def _is_given_more(known: ProjectFacts, mapped: Call) -> bool:
    """Whether ``partial`` gives it a function, which may average the gradients."""
    if "partial" not in mapped.fact.text:
        return False
    partials = [each for each in known.inside(mapped.fact.function) if each.fact.method == "partial"]
    given = [more.value for each in partials if each.fact.text in mapped.fact.text for more in each.fact.arguments[1:]]
    return not partials or any(value.target or "lambda" in value.text or _REDUCED.search(value.text) for value in given)


def _around(known: ProjectFacts, function: str, hops: int = 4) -> set[str]:
    """A function, its own inner ones, and what they call."""
    found, fresh = {function}, {function}
    for _ in range(hops):
        called = {target for each in fresh for _, _, target in known.aims_inside(each) if target}
        given = {
            argument.value.target
            for each in fresh
            for call in known.inside(each)
            for argument in call.fact.arguments
            if argument.value.target
        }
        inner = {name for name in known.functions for each in fresh if name.startswith(f"{each}.")}
        fresh = (called | given | inner) - found
        found |= fresh
    return found


def _is_shown_only(call: Call, function: str) -> bool:
    """Whether a call averages the loss that a function returns beside its gradients, and nothing else."""
    value = call.fact.argument("x", 0)
    if call.fact.name not in _AVERAGES or call.fact.function != function or value is None:
        return False
    is_value = value.made.startswith("jax.value_and_grad.__call__[0]")
    return value.text.isidentifier() and (is_value or _SHOWN.fullmatch(value.text) is not None)


def _applied(known: ProjectFacts, function: str) -> tuple[Call, Call] | None:
    """Where a function takes gradients, and where it applies them itself."""
    inside = known.inside(function)
    gradient = next((each for each in inside if each.fact.name in _GRADIENTS), None)
    if gradient is None:
        return None
    for each in inside:
        given = [part for argument in each.fact.arguments for part in (argument.value.made, *argument.value.parts)]
        from_gradient = any(made.partition("[")[0] in _GRADIENTS for made in given)
        if each.fact.method in _UPDATES and each.fact.order > gradient.fact.order:
            return gradient, each
        if each.fact.name == "jax.tree.map" and from_gradient and len(each.fact.arguments) == 3:
            return gradient, each
    return None


@rule(id="COD312", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def gradients_not_reduced(seen: EvidenceSet) -> Findings:
    """A function under `pmap` applies its gradients without averaging them over the devices.

    ## What it looks like
    ```python
    import functools

    import jax

    @functools.partial(jax.pmap, axis_name="devices")
    def step(weights, batch):
        grads = jax.grad(loss)(weights, batch)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads)
    ```

    ## Why it happens
    `pmap` runs the function on each device with its own rows and exchanges nothing by itself. Without `pmean` each
    device trains alone, and the copies of the weights drift apart.

    ## How we know
    `pmap` gives the axis a name. The function takes gradients and applies them, and neither it nor what it calls
    exchanges anything over an axis but the loss that it shows.

    ## What to do
    ```python
    import functools

    import jax

    @functools.partial(jax.pmap, axis_name="devices")
    def step(weights, batch):
        grads = jax.grad(loss)(weights, batch)
        grads = jax.lax.pmean(grads, axis_name="devices")
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads)
    ```

    ## When this is wrong
    When each device is meant to train a model of its own, or the optimizer averages.
    """
    known = program(seen)
    told = set()
    for function, mapped in _mapped(known):
        names = sorted(_around(known, function.fact.name))
        reduced = [each for name in names for each in known.inside(name) if _REDUCED.search(each.fact.text)]
        for name in names:
            found = _applied(known, name)
            if found is None or name in told or not all(_is_shown_only(each, name) for each in reduced):
                continue
            told.add(name)
            gradient, update = found
            yield Found(
                title="each device applies its own gradients",
                because=f"`{mapped}` runs it on every device; `{gradient.fact.text}` (line {gradient.origin.line}) is"
                " the gradient of this device's rows, and no pmean or psum comes before the update",
                evidence=(update, gradient),
                fixes=(
                    Fix(
                        do="average them first: grads = jax.lax.pmean(grads, axis_name)", safety=Safety.CHANGES_RESULTS
                    ),
                ),
            )
