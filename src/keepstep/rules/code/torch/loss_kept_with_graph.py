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


def _is_kept(known: Program, place: CodeAssigned | CodeCall, loss: str, kept: str) -> bool:
    """Whether ``loss`` has a graph there, and what keeps it is not itself a step's loss."""
    loops = [each.line for each in place.within if each.kind in ("for", "while")]
    if not loops:
        return False
    backwards = [
        each
        for each in known.inside(place.function)
        if each.fact.method == "backward" and each.fact.on is not None and not is_without_gradients(each, known)
    ]
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
    for each in known.assigned:
        fact = each.fact
        if (
            fact.operator == "Add"
            and fact.value.text.isidentifier()
            and _is_kept(known, fact, fact.value.text, fact.target)
        ):
            yield _found(each, fact.value.text)
    for call in known.methods("append"):
        given = call.fact.argument("", 0)
        if given is not None and given.text.isidentifier() and call.fact.on is not None:
            if _is_kept(known, call.fact, given.text, call.fact.on.text):
                yield _found(call, given.text)
