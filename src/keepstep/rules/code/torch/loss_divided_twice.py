# SPDX-License-Identifier: Apache-2.0
"""COD131: the loss is divided by the number of accumulation steps, and Accelerate divides it again."""

from __future__ import annotations

import ast

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code._made_later import Assigned

_ACCELERATOR = "accelerate.Accelerator"
_STEPS = "gradient_accumulation_steps"
_PLUGINS = ("accelerate.utils.GradientAccumulationPlugin", "accelerate.GradientAccumulationPlugin")


def _steps(known: ProjectFacts, place: Call) -> str:
    """The number of passes that Accelerate accumulates over, as it is written; empty: over one, or unknown."""
    made = known.among(place, _ACCELERATOR)
    given = [each.fact.argument(_STEPS) for each in (*made, *known.among(place, *_PLUGINS))]
    given += [each.fact.argument("num_steps", 0) for each in known.among(place, *_PLUGINS)]
    said = {each.text for each in given if each is not None and each.literal != "1"}
    is_set_later = any(each.origin.source in known.related(place) for each in known.assigned_to(f".{_STEPS}"))
    return said.pop() if len(made) == 1 and len(said) == 1 and not is_set_later else ""


def _divided_by(text: str) -> str:
    """What an expression is divided by in the end, if it is."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    is_divided = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    return ast.unparse(node.right) if is_divided and isinstance(node, ast.BinOp) else ""


def _is_number(divisor: str, steps: str, accelerator: str) -> bool:
    """Whether it is the number that Accelerate was given; a plain number may mean anything else."""
    if not divisor or divisor[:1].isdecimal():
        return False
    return divisor in (steps, f"{accelerator}.{_STEPS}")


def _set_last(known: ProjectFacts, call: Call, name: str, divisor: tuple[str, ...]) -> Assigned | None:
    """What the loss was given last before the call, if that surely happened."""
    assigned = known.assigned_in.get(call.fact.function, ())
    before = [each for each in assigned if each.fact.target == name and each.fact.order < call.fact.order]
    if not before:
        return None
    more = [block for block in before[-1].fact.within if block not in call.fact.within]
    is_sure = all(block.kind == "if" and any(word in block.text for word in divisor) for block in more)
    return before[-1] if is_sure else None


@rule(
    id="COD131",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def loss_divided_twice(seen: EvidenceSet) -> Findings:
    """The loss is divided by the accumulation steps before `accelerator.backward`, which divides it, too.

    ## What it looks like
    ```python
    from accelerate import Accelerator

    def train(model, loader, optimizer, every):
        accelerator = Accelerator(gradient_accumulation_steps=every)
        model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(batch).sum() / every
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Why it happens
    In a loop without Accelerate the program divides. `accelerator.backward` divides by the
    `gradient_accumulation_steps` that the Accelerator was made with; after a second division the gradients are too
    small by that factor.

    ## How we know
    The loss that `accelerator.backward` gets was divided last by the very expression that the Accelerator was given.

    ## What to do
    ```python
    from accelerate import Accelerator

    def train(model, loader, optimizer, every):
        accelerator = Accelerator(gradient_accumulation_steps=every)
        model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(batch).sum()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## When this is wrong
    When the loss is a sum over the steps that was multiplied by their number before.
    """
    known = program(seen)
    for call in known.calls(f"{_ACCELERATOR}.backward"):
        loss = call.fact.argument("loss", 0)
        steps = _steps(known, call)
        if loss is None or not steps or call.fact.on is None:
            continue
        mine = call.fact.on.text
        divisor = _divided_by(loss.text)
        set_last = _set_last(known, call, loss.text, (steps, f"{mine}.{_STEPS}"))
        if set_last is not None:
            fact = set_last.fact
            divisor = (
                fact.value.text if fact.operator == "Div" else "" if fact.operator else _divided_by(fact.value.text)
            )
        if not _is_number(divisor, steps, mine):
            continue
        yield Found(
            title="the loss is divided by the accumulation steps twice",
            because=f"it is divided by `{divisor}`, and `{mine}.backward` divides by {_STEPS}, which is `{steps}`: the"
            " gradients are too small by that factor",
            evidence=(set_last, call) if set_last is not None else (call,),
            fixes=(Fix(do="give the loss to backward as it is", safety=Safety.CHANGES_RESULTS),),
        )
