# SPDX-License-Identifier: Apache-2.0
"""COD112: the optimizer holds parameters that FSDP replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import FSDP, FULLY_SHARD


def _optimizes(known: ProjectFacts, call: Call, model: str) -> bool:
    """Whether it makes an optimizer of the parameters of a model."""
    name = call.fact.name
    if name.startswith("torch.optim."):
        if "lr_scheduler" in name:
            return False
    elif not _makes_optimizer(known, call):
        return False
    word = re.compile(rf"(?<![\w.]){re.escape(model)}(?:\.(?:named_)?parameters\(|\s*[,)])")
    if word.search(call.fact.text):
        return True
    given = call.fact.argument("params", 0)
    return given is not None and any(
        each.fact.target == given.text and each.fact.order < call.fact.order and word.search(each.fact.value.text)
        for each in known.assigned_in.get(call.fact.function, ())
    )


def _makes_optimizer(known: ProjectFacts, call: Call) -> bool:
    """Whether it calls a function of the program that returns an optimizer."""
    function = known.functions.get(call.fact.target)
    returns = function.fact.returns if function is not None else ()
    return bool(returns) and all(each.startswith("torch.optim.") and "lr_sched" not in each for each in returns)


def _wrapping(known: ProjectFacts) -> Iterator[Call]:
    """The calls of functions that shard what they are given first."""
    for shard in known.calls(FSDP, FULLY_SHARD):
        function = known.functions.get(shard.fact.function)
        model = shard.fact.argument("module", 0)
        if function is not None and model is not None and function.fact.parameters[:1] == (model.text,):
            yield from known.callers(shard.fact.function)


@rule(id="COD112", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def optimizer_before_fsdp(seen: EvidenceSet) -> Findings:
    """The optimizer is made from the model's parameters before FSDP shards the model.

    ## What it looks like
    ```python
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    def build(net):
        optimizer = torch.optim.AdamW(net.parameters())
        model = FSDP(net)
        return model, optimizer
    ```

    ## Why it happens
    FSDP replaces the parameters by shards. The optimizer keeps the old ones, which nobody uses any more: the loss
    does not move.

    ## How we know
    The optimizer's line comes before the one that shards the same model.

    ## What to do
    ```python
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    def build(net):
        model = FSDP(net)
        optimizer = torch.optim.AdamW(model.parameters())
        return model, optimizer
    ```

    ## When this is wrong
    When `use_orig_params=True` is given and the optimizer is changed afterwards.
    """
    known = program(seen)
    for shard in (*known.calls(FSDP, FULLY_SHARD), *_wrapping(known)):
        model = shard.fact.argument("module", 0)
        if model is None:
            continue
        inside = known.inside(shard.fact.function)
        if any(each.fact.order > shard.fact.order and _optimizes(known, each, model.text) for each in inside):
            continue  # it is made anew
        for each in inside:
            if each.fact.order < shard.fact.order and _optimizes(known, each, model.text):
                yield Found(
                    title="the optimizer is made before FSDP shards the model",
                    because=f"line {shard.origin.line} replaces the parameters of `{model.text}` by shards;"
                    " the optimizer keeps the old ones, and nothing is trained",
                    evidence=(each, shard),
                    fixes=(Fix(do="make the optimizer after the model is sharded"),),
                )
                break
