# SPDX-License-Identifier: Apache-2.0
"""COD111: the model is changed after DDP wrapped it."""

from __future__ import annotations

from keepstep.model.facts import CodeAssigned, CodeCall
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    lazy_pattern,
    rule,
)
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import DDP


def _freezes(known: ProjectFacts, call: Call) -> bool:
    """Whether it calls a method of the model that sets ``requires_grad``."""
    if not call.fact.name.startswith(f"{DDP}.module."):
        return False
    if not call.fact.target and call.fact.method.startswith(("freeze", "unfreeze")):
        return True
    return bool(call.fact.target) and any(
        each.fact.target.endswith("requires_grad") for each in known.assigned_in.get(call.fact.target, ())
    )


_PARTS = lazy_pattern(r"^torch\.nn\.(?!functional|init|utils|parallel)")


def _is_replaced(assigned: Evidence[CodeAssigned]) -> bool:
    """Whether a layer is put into the wrapped model."""
    on = assigned.fact.on
    if on is None or not (on.made == DDP or on.made.startswith(f"{DDP}.module")) or assigned.fact.operator:
        return False
    return "." in assigned.fact.target and bool(_PARTS.search(assigned.fact.value.made))


def _is_frozen(known: ProjectFacts, assigned: Evidence[CodeAssigned]) -> bool:
    """Whether ``requires_grad`` of its parameters is changed, and not for a while only."""
    on = assigned.fact.on
    if on is None or not assigned.fact.target.endswith(".requires_grad") or not on.made.startswith(f"{DDP}."):
        return False
    return not _is_toggled(known, assigned)


def _is_toggled(known: ProjectFacts, place: Evidence[CodeAssigned] | Call) -> bool:
    """Whether the same function switches gradients both off and on, as adversarial training does."""
    literals = {
        each.fact.value.literal
        for each in known.assigned_in.get(place.fact.function, ())
        if each.fact.target.endswith(".requires_grad")
    }
    switched = [each for each in known.inside(place.fact.function) if each.fact.method == "requires_grad_"]
    literals |= {each.fact.arguments[0].value.literal if each.fact.arguments else "True" for each in switched}
    return {"True", "False"} <= literals


def _is_renamed(known: ProjectFacts, assigned: Evidence[CodeAssigned]) -> bool:
    """Whether a layer is put into the module that DDP wrapped above under another name."""
    owner = assigned.fact.target.rpartition(".")[0]
    if not owner or not _PARTS.search(assigned.fact.value.made) or assigned.fact.operator:
        return False
    for wrap in known.inside(assigned.fact.function):
        module = wrap.fact.argument("module", 0) if wrap.fact.name == DDP else None
        if module is None or wrap.fact.order > assigned.fact.order or wrap.fact.within != assigned.fact.within:
            continue
        if module.text == owner and wrap.fact.assigned not in ("", owner):
            return True
    return False


def _converts(call: Call) -> bool:
    """Whether the layers of the wrapped model are replaced by synchronised ones."""
    return call.fact.method == "convert_sync_batchnorm" and any(each.value.made == DDP for each in call.fact.arguments)


def _moves(known: ProjectFacts, call: Call) -> bool:
    return call.fact.name in (f"{DDP}.to", f"{DDP}.cuda") and not _was_moved(known, call)


def _was_moved(known: ProjectFacts, moved: Call) -> bool:
    """Whether the model was on its device before it was wrapped, or what this changes is no device."""
    if not moved.fact.arguments and moved.fact.method == "to":
        return True
    named = {each.name for each in moved.fact.arguments}
    wraps = [each for each in known.inside(moved.fact.function) if each.fact.name == DDP]
    if not wraps or "memory_format" in named or any("dtype" in each.value.text for each in moved.fact.arguments):
        return True
    return any(
        each.fact.method in ("to", "cuda", "to_empty") and each is not moved
        for each in known.inside(moved.fact.function)
        if each.fact.order < max(wrap.fact.order for wrap in wraps) or each.fact.text in wraps[0].fact.text
    )


def _found(place: Evidence[CodeAssigned] | Call, what: str) -> Found:
    return Found(
        title="the model is changed after DDP wrapped it",
        because=f"`{what}` changes parameters that DDP has hooks on: new ones are never averaged, frozen ones are"
        " waited for",
        evidence=(place,),
        fixes=(Fix(do="change the model first and wrap it then, or wrap it again"),),
    )


@rule(
    id="COD111",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(CodeCall, CodeAssigned),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def changed_after_wrapping(seen: EvidenceSet) -> Findings:
    """Parameters are replaced, added or frozen after DDP has wrapped the model.

    ## What it looks like
    ```python
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    def build(net):
        model = DistributedDataParallel(net)
        model.module.head = nn.Linear(64, 10)
        return model
    ```

    ## Why it happens
    DDP registers a hook on each parameter when it wraps the model. What comes later has none: its gradients are not
    averaged, and what is frozen later is waited for.

    ## How we know
    An assignment, or a call that changes `requires_grad`, on the wrapped module stands after the line that wraps
    it.

    ## What to do
    ```python
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    def build(net):
        net.head = nn.Linear(64, 10)
        model = DistributedDataParallel(net)
        return model
    ```

    ## When this is wrong
    When the model is wrapped again afterwards.
    """
    known = program(seen)
    for each in known.assigned_on(lambda made: made == DDP or made.startswith(f"{DDP}.")):
        if _is_replaced(each) or _is_frozen(known, each):
            yield _found(each, each.fact.target)
    for function in dict.fromkeys(each.fact.function for each in known.calls(DDP)):
        for each in known.assigned_in.get(function, ()):
            if _is_renamed(known, each) and not _is_replaced(each):
                yield _found(each, each.fact.target)
    for call in known.named(lambda name: name.startswith(f"{DDP}.") or name.endswith("convert_sync_batchnorm")):
        name, method = call.fact.name, call.fact.method
        is_inner = name.startswith((f"{DDP}.module.", f"{DDP}.parameters[", f"{DDP}.named_parameters["))
        if is_inner and method in ("requires_grad_", "register_parameter", "add_module"):
            if method != "requires_grad_" or not _is_toggled(known, call):
                yield _found(call, call.fact.text)
        elif _freezes(known, call) or _converts(call) or _moves(known, call):
            yield _found(call, call.fact.text)
