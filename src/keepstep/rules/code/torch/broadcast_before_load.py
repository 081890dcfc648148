# SPDX-License-Identifier: Apache-2.0
"""COD133: one rank loads a checkpoint after the weights were made equal."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, is_on_some_ranks, program, short
from keepstep.rules.code.torch._torch import DDP

_WEIGHTS = ("horovod.broadcast_parameters", "horovod.broadcast_optimizer_state")
_MEETS = re.compile(r"(?i)broadcast|sync|reduce|gather|scatter|parallel|fully_shard|deepspeed|prepare")
_NUMBERS = ("broadcast_object", "broadcast_object_list", "broadcast_one_to_all")


def _is_shared_by(call: Call, name: str) -> bool:
    """Whether a call gives all ranks what rank 0 holds in the object of that name."""
    fact = call.fact
    if is_on_some_ranks(call):
        return False
    if fact.name in _WEIGHTS:
        return bool(fact.arguments) and _is_of(fact.arguments[0].value.text, name)
    if fact.name == DDP:
        return bool(fact.arguments) and name in (fact.arguments[0].value.text, fact.assigned, f"{fact.assigned}.module")
    if fact.name == "torch.distributed.broadcast":
        return any(_is_of(block.text, name) for block in blocks(call, "for"))
    return False


def _is_of(text: str, name: str) -> bool:
    """Whether it is the object, or its parameters or state."""
    return text == name or text.startswith((f"{name}.state_dict(", f"{name}.parameters(", f"{name}.named_parameters("))


def _trains(known: ProjectFacts, call: Call) -> bool:
    return call.fact.method == "backward" or any(
        each.fact.method == "backward" for each in known.inside(call.fact.target)
    )


def _may_share(known: ProjectFacts, call: Call, name: str) -> bool:
    """Whether the other ranks may get the weights in a call."""
    if call.fact.method in _NUMBERS:
        return name in call.fact.text or "state" in call.fact.text
    if call.fact.target:
        inside = known.inside(call.fact.target)
        return any(_MEETS.search(each.fact.name) or each.fact.target for each in inside)
    return ".__call__" not in call.fact.name and bool(_MEETS.search(call.fact.name))


def _shared_before(known: ProjectFacts, load: Call, name: str) -> Call | None:
    """The call that made all ranks equal before the load, if they go on to train with nothing that does it again."""
    around = known.inside(load.fact.function)
    before = [each for each in around if each.fact.order < load.fact.order and _is_shared_by(each, name)]
    if not before:
        return None
    own = next(block for block in blocks(load, "if") if block.ranked)
    for each in around:
        if each.fact.order <= load.fact.order or own in each.fact.within:
            continue
        if _trains(known, each):
            return before[-1]
        if each.fact.method == "load_state_dict" or _may_share(known, each, name):
            return None
    return None


@rule(id="COD133", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def broadcast_before_load(seen: EvidenceSet) -> Findings:
    """The weights are broadcast first, and then one rank alone loads a checkpoint into them.

    ## What it looks like
    ```python
    import horovod.torch as hvd
    import torch

    def train(model, optimizer, loader, path):
        hvd.init()
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        if hvd.rank() == 0:
            model.load_state_dict(torch.load(path, map_location="cpu"))
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    ```

    ## Why it happens
    The broadcast, or the wrapping with DDP, copies what rank 0 holds at that time. What it loads later stays with it:
    rank 0 goes on from the checkpoint, the others from where they began, and all of them add the same updates.

    ## How we know
    One rank loads into a model or an optimizer that was broadcast or wrapped before. Between the load and the first
    backward pass nothing gives it to the others.

    ## What to do
    ```python
    import horovod.torch as hvd
    import torch

    def train(model, optimizer, loader, path):
        hvd.init()
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        if hvd.rank() == 0:
            model.load_state_dict(torch.load(path, map_location="cpu"))
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    ```

    ## When this is wrong
    When the other ranks get the weights in a way that is not seen here, such as a hook.
    """
    known = program(seen)
    told = set()
    for load in known.methods("load_state_dict"):
        ranked = [block for block in blocks(load, "if") if block.ranked]
        if not ranked or blocks(load, "for", "while", "else", "except") or load.fact.on is None:
            continue
        name = load.fact.on.text
        shared = _shared_before(known, load, name)
        place = (load.origin.source, ranked[0].line)
        if shared is None or place in told:
            continue
        told.add(place)
        yield Found(
            title=f"only some ranks go on with the checkpoint in {name}",
            because=f"under `{ranked[0].text}` (line {ranked[0].line}) some ranks load it, after"
            f" {short(shared.fact.name)} (line {shared.origin.line}) made all ranks equal",
            evidence=(load, shared),
            fixes=(Fix(do="load first and broadcast then, or let all ranks load"),),
        )
