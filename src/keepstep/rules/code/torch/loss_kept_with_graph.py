# SPDX-License-Identifier: Apache-2.0
"""COD115: losses are summed with their graphs."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.code import CodeAssigned, CodeCall
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.code._asking import Call, Program, program
from keepstep.rules.code.torch._torch import is_without_gradients

_LOSSES = frozenset(
    f"torch.nn.functional.{name}"
    for name in ("cross_entropy", "mse_loss", "l1_loss", "nll_loss", "binary_cross_entropy", "smooth_l1_loss", "kl_div")
)


def _is_called_without_gradients(known: Program, place: CodeAssigned | CodeCall) -> bool:
    """Whether the function, or one that calls it, switches gradients off; unknown callers may."""
    function = known.functions.get(place.function)
    words = [*(each.text for each in place.within), *(function.fact.decorators if function else ())]
    callers = known.callers(place.function)
    calls = [each for each in known.inside(place.function) if "grad_enabled" in each.fact.name]
    return (
        not callers
        or bool(calls)
        or any("no_grad" in word or "inference_mode" in word for word in words)
        or any(is_without_gradients(each, known) for each in callers)
    )


def _is_kept(known: Program, place: CodeAssigned | CodeCall, loss: str, kept: str, is_of_a_loss: bool) -> bool:
    """Whether ``loss`` has a graph there, and what keeps it is not itself a step's loss."""
    loops = [each.line for each in place.within if each.kind in ("for", "while")]
    if not loops:
        return False
    backwards = [
        each
        for each in known.inside(place.function)
        if each.fact.method == "backward" and each.fact.on is not None and not is_without_gradients(each, known)
    ]
    if not backwards and is_of_a_loss and not _is_called_without_gradients(known, place):
        return True
    if any(kept in each.fact.on.text for each in backwards if each.fact.on):
        return False
    here = [each for each in backwards if each.fact.on and each.fact.on.text == loss]
    return any(loops[-1] in [block.line for block in each.fact.within] for each in here)


def _found(place: Evidence[CodeAssigned] | Call, loss: str) -> Found:
    return Found(
        title="the graph of every step is kept",
        because=f"`{loss}` still refers to its graph: the sum or list keeps those of all steps, and memory grows",
        evidence=(place,),
        fixes=(Fix(do=f"use {loss}.detach(), or {loss}.item() where you print it"),),
    )


@rule(
    id="COD115",
    cause=Cause.RESOURCE_MEMORY_LEAK,
    needs=(
        CodeCall,
        CodeAssigned,
    ),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def loss_kept_with_graph(seen: EvidenceSet) -> Iterator[Found]:
    """A loss is added up or collected in a loop without `detach` or `item`.

    ## What it looks like
    ```python
    def train(model, loader, optimizer):
        total = 0.0
        for batch in loader:
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            total += loss
        return total
    ```

    ## Why it happens
    The sum refers to the graph of every step. Memory grows with each of them until the GPU or the host has none
    left.

    ## How we know
    The same variable is added to a sum, or appended to a list, in the loop in which `backward` is called on it.

    ## What to do
    ```python
    def train(model, loader, optimizer):
        total = 0.0
        for batch in loader:
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        return total
    ```

    ## When this is wrong
    When the sum itself is what `backward` is called on, as for several losses of one step.
    """
    known = program(seen)
    for each in known.assigned_with("Add"):
        fact, value = each.fact, each.fact.value
        if value.text.isidentifier() and _is_kept(known, fact, value.text, fact.target, value.made in _LOSSES):
            yield _found(each, value.text)
    for call in known.methods("append"):
        given, kept = call.fact.argument("", 0), call.fact.on
        if given is None or kept is None or not given.text.isidentifier():
            continue
        if _is_kept(known, call.fact, given.text, kept.text, given.made in _LOSSES):
            yield _found(call, given.text)
