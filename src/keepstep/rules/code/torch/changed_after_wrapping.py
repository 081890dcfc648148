# SPDX-License-Identifier: Apache-2.0
"""COD111: the model is changed after DDP wrapped it."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.code import CodeAssigned, CodeCall
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.code._asking import Call, Program, program
from keepstep.rules.code.torch._torch import DDP


def _freezes(known: Program, call: Call) -> bool:
    """Whether it calls a function of the program that sets ``requires_grad``."""
    if not call.fact.target and call.fact.method.startswith(("freeze", "unfreeze")):
        return True
    return bool(call.fact.target) and any(
        each.fact.target.endswith("requires_grad") for each in known.assigned_in.get(call.fact.target, ())
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
    needs=(
        CodeCall,
        CodeAssigned,
    ),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def changed_after_wrapping(seen: EvidenceSet) -> Iterator[Found]:
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
    for each in known.assigned_on(lambda made: made.startswith(f"{DDP}.module")):
        is_module = each.fact.value.made.startswith("torch.nn.") or each.fact.target.endswith("requires_grad")
        if is_module and each.fact.target.count(".") > 1:
            yield _found(each, each.fact.target)
    for call in known.named(lambda name: name.startswith(f"{DDP}.module.")):
        if call.fact.method in ("requires_grad_", "register_parameter", "add_module") or _freezes(known, call):
            yield _found(call, call.fact.text)
