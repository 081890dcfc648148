# SPDX-License-Identifier: Apache-2.0
"""COD110: the step calls the bare module, so gradients are never averaged."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.code import CodeCall
from keepstep.core.finding import Confidence, Fix, Found, Safety
from keepstep.core.rule import rule
from keepstep.rules.code._asking import Call, Program, program
from keepstep.rules.code.torch._torch import DDP, is_without_gradients

_OF_WRAPPER = (DDP, f"{DDP}.module", f"{DDP}.module.__call__")


def _bare_calls(known: Program, backward: Call) -> Iterator[Call]:
    """The calls of a wrapped module, past its wrapper, from which this loss comes."""
    if known.names_inside(backward.fact.function).isdisjoint(_OF_WRAPPER):
        return
    inside = known.inside(backward.fact.function)
    source = f"{backward.fact.on.made} {backward.fact.on.parts}" if backward.fact.on else ""
    wraps = [each for each in inside if each.fact.name == DDP]
    wrapped = {value.text: each for each in wraps if (value := each.fact.argument("module", 0)) is not None}
    called = {each.fact.text.partition("(")[0] for each in inside}
    for each in inside:
        if each.fact.order > backward.fact.order or is_without_gradients(each, known):
            continue
        if each.fact.name in _OF_WRAPPER[1:] and f"{DDP}.module" in source:
            yield each
        name = each.fact.text.partition("(")[0]
        wrap = wrapped.get(name)
        if wrap is None or wrap.fact.order > each.fact.order or wrap.fact.assigned in ("", name):
            continue
        if wrap.fact.assigned not in called and each.fact.assigned:
            yield each


def _averages(known: Program, backward: Call) -> bool:
    return "torch.distributed.all_reduce" in known.names_inside(backward.fact.function)


@rule(id="COD110", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def module_not_wrapper(seen: EvidenceSet) -> Iterator[Found]:
    """The training step calls the bare module instead of its DDP wrapper.

    ## What it looks like
    ```python
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for batch in loader:
            loss = model.module(batch).sum()
            loss.backward()
            optimizer.step()
    ```

    ## Why it happens
    DDP averages gradients only for what went through the wrapper's own forward. Called directly, each rank trains
    its own copy, and the replicas drift apart without a word.

    ## How we know
    The loss on which `backward` is called comes from the module inside the wrapper.

    ## What to do
    ```python
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for batch in loader:
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
    ```

    ## When this is wrong
    When the gradients are averaged by hand afterwards.
    """
    known = program(seen)
    for each in known.methods("backward"):
        if not known.among(each, DDP) or _averages(known, each):
            continue
        bare = next(_bare_calls(known, each), None)
        if bare is not None:
            yield Found(
                title="the step calls the bare module: DDP never averages its gradients",
                because=f"`{bare.fact.text}` goes past the wrapper's forward, so backward (line {each.origin.line})"
                " exchanges nothing and the replicas drift apart",
                evidence=(bare,),
                fixes=(Fix(do="call the DDP wrapper itself", safety=Safety.CHANGES_RESULTS),),
            )
