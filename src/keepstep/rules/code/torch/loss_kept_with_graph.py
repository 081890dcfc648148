# SPDX-License-Identifier: Apache-2.0
"""COD115: losses are summed with their graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts import CodeAssigned, CodeCall
from keepstep.rules.api import Cause, Confidence, Edit, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code._edits import followed
from keepstep.rules.code.torch._losses import BACKWARD, added_to, backwards, holds_graph, losses_of
from keepstep.rules.code.torch._torch import is_without_gradients

_FREED = re.compile(r"\.(?:item|detach|numpy|tolist)\(|^float\(")
"""What a loss goes through if it is kept without its graph."""


def _sums(known: ProjectFacts) -> Iterator[tuple[Evidence[CodeAssigned], str]]:
    """What is added to variables: by ``+=``, or, where gradients are taken, by ``total = total + x``."""
    for each in known.assigned_with("Add"):
        yield each, each.fact.value.text
    for function in dict.fromkeys(each.fact.function for each in known.methods(*BACKWARD)):
        for each in known.assigned_in.get(function, ()):
            text = "" if each.fact.operator else added_to(each.fact.target, each.fact.value.text)
            if text:
                yield each, text


def _is_kept(known: ProjectFacts, place: CodeAssigned | CodeCall, text: str, kept: str) -> str:
    """The loss that is kept with its graph there, if what keeps it is not itself a step's loss; empty: none."""
    loops = [each.line for each in place.within if each.kind in ("for", "while")]
    if not loops:
        return ""
    passes = [each for each in backwards(known, place.function) if not is_without_gradients(each, known)]
    if not passes or kept in _reset(known, place, loops[-1]):
        return ""
    if any(kept in f"{each.fact.on.text if each.fact.on else ''} {each.fact.text}" for each in passes):
        return ""
    here = [each for each in passes if loops[-1] in [block.line for block in each.fact.within]]
    loss = holds_graph(text, {loss for each in here for loss in losses_of(each)})
    return "" if loss and _is_freed(known, place, loss) else loss


def _is_freed(known: ProjectFacts, place: CodeAssigned | CodeCall, loss: str) -> bool:
    """Whether the variable gets its own value without the graph in between: ``loss = loss.detach().item()``."""
    return any(
        each.fact.assigned == loss and loss in each.fact.text and _FREED.search(each.fact.text)
        for each in known.inside(place.function)
    )


def _reset(known: ProjectFacts, place: CodeAssigned | CodeCall, loop: int) -> set[str]:
    """The variables that begin anew in every turn of a loop."""
    return {
        each.fact.target
        for each in known.assigned_in.get(place.function, ())
        if not each.fact.operator
        and not added_to(each.fact.target, each.fact.value.text)
        and loop in [block.line for block in each.fact.within]
    }


def _sums_up(known: ProjectFacts, call: Call, position: int, name: str) -> bool:
    """Whether a function of the program adds an argument to what its object holds, as it is."""
    function = known.functions.get(call.fact.target)
    if function is None or "(" in call.fact.target:
        return False
    parameters = function.fact.parameters
    given = name or (parameters[position] if position < len(parameters) else "")
    inside = known.assigned_in.get(call.fact.target, [])
    if any(given == each.fact.target for each in inside):
        return False
    freed = re.compile(rf"(?<![\w.]){re.escape(given)}\s*\.|\(\s*{re.escape(given)}\s*[,)]")
    if any(freed.search(each.fact.text) for each in known.inside(call.fact.target)):
        return False
    return any(
        each.fact.operator == "Add"
        and each.fact.target.startswith("self.")
        and bool(holds_graph(each.fact.value.text, {given}))
        for each in inside
    )


def _given_to_sums(known: ProjectFacts) -> Iterator[tuple[Call, str]]:
    """The calls that give a loss to something of the program that adds it up."""
    for call in known.methods("update", "add", "log", "append", "record", "push"):
        for position, argument in enumerate(call.fact.arguments if call.fact.target else ()):
            if _sums_up(known, call, position, argument.name):
                loss = _is_kept(known, call.fact, argument.value.text, "(no variable)")
                if loss:
                    yield call, loss


def _in_training_steps(known: ProjectFacts) -> Iterator[tuple[Call, str]]:
    """The losses that a Lightning module collects in its own list."""
    for call in known.methods("append"):
        function = known.functions.get(call.fact.function)
        given, on = call.fact.argument("", 0), call.fact.on
        if function is None or given is None or on is None or not call.fact.function.endswith(".training_step"):
            continue
        is_module = any(base.startswith("lightning.") for base in function.fact.bases)
        if is_module and on.text.startswith("self.") and re.fullmatch(r"\w*loss", given.text):
            yield call, given.text


def _edit(known: ProjectFacts, place: Evidence[CodeAssigned] | Call, loss: str) -> Edit | None:
    """Without the graph, where nothing but the loss is added or given."""
    fact = place.fact
    values = [fact.value] if isinstance(fact, CodeAssigned) else [each.value for each in fact.arguments]
    those = [each for each in values if each.text == loss]
    return followed(known, place.origin.source, those[0], ".detach()") if len(those) == 1 else None


def _found(known: ProjectFacts, place: Evidence[CodeAssigned] | Call, loss: str) -> Found:
    return Found(
        title="the graph of every step is kept",
        because=f"`{loss}` still refers to its graph: the sum or list keeps those of all steps, and memory grows",
        evidence=(place,),
        fixes=(Fix(do=f"use {loss}.detach(), or {loss}.item() where you print it", edit=_edit(known, place, loss)),),
    )


@rule(
    id="COD115",
    cause=Cause.RESOURCE_MEMORY_LEAK,
    needs=(CodeCall, CodeAssigned),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def loss_kept_with_graph(seen: EvidenceSet) -> Findings:
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
    The same variable is added to a sum, appended to a list, or given to a meter of the program that adds it up, in the
    loop in which `backward` is called on it.

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
    for each, text in _sums(known):
        loss = _is_kept(known, each.fact, text, each.fact.target)
        if loss:
            yield _found(known, each, loss)
    for call in known.methods("append"):
        given, kept = call.fact.argument("", 0), call.fact.on
        if given is None or kept is None or call.fact.target:
            continue
        loss = _is_kept(known, call.fact, given.text, kept.text)
        if loss:
            yield _found(known, call, loss)
    for call, loss in (*_given_to_sums(known), *_in_training_steps(known)):
        yield _found(known, call, loss)
