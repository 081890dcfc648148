# SPDX-License-Identifier: Apache-2.0
"""COD121: each rank clips by the norm of its own shards."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import FSDP

_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")


def _wraps(known: ProjectFacts, clip: Call) -> list[Call]:
    """Where FSDP wraps the model whose gradients are clipped; none: it may be another model, or not be wrapped."""
    given = clip.fact.argument("parameters", 0)
    if given is None:
        return []
    function = known.functions.get(clip.fact.function)
    model = given.text.removesuffix(".parameters()")
    if given.made == f"{FSDP}.parameters":
        return known.among(clip, FSDP)
    if function is None or model not in function.fact.parameters or model == given.text:
        return []
    place = function.fact.parameters.index(model)
    callers = known.callers(clip.fact.function)
    values = [each.fact.argument(model, place) for each in callers]
    if not values or any(each is None or each.made != FSDP for each in values):
        return []
    return [each for each in known.calls(FSDP) if each.origin.source in {call.origin.source for call in callers}]


def _knows_fsdp(known: ProjectFacts, clip: Call) -> bool:
    """Whether the function asks what the model is, and clips in the other way, too."""
    is_asked = any("fsdp" in each.text.lower() or "shard" in each.text.lower() for each in clip.fact.within)
    inside = known.inside(clip.fact.function)
    return is_asked or any(each.fact.method == "clip_grad_norm_" and each.fact.name not in _CLIPS for each in inside)


@rule(id="COD121", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def clip_of_shards(seen: EvidenceSet) -> Findings:
    """`torch.nn.utils.clip_grad_norm_` is used on a model that FullyShardedDataParallel wraps.

    ## What it looks like
    ```python
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel

    def train(net, loader, make_optimizer):
        model = FullyShardedDataParallel(net)
        optimizer = make_optimizer(model.parameters())
        for batch in loader:
            model(batch).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    ```

    ## Why it happens
    After the backward pass each rank holds the gradients of its own shard. `torch.nn.utils.clip_grad_norm_` knows
    nothing of the other shards: each rank takes the norm of its own part, and scales that part by a factor of its
    own. The update points in another direction than that of the whole gradient. Models that `fully_shard` shards
    are fine: their gradients are DTensors, and the norm is that of all shards.

    ## How we know
    The parameters are those of a model that `FullyShardedDataParallel` returned, here or in every caller, and it is
    not told to keep whole copies (`NO_SHARD`).

    ## What to do
    ```python
    from torch.distributed.fsdp import FullyShardedDataParallel

    def train(net, loader, make_optimizer):
        model = FullyShardedDataParallel(net)
        optimizer = make_optimizer(model.parameters())
        for batch in loader:
            model(batch).sum().backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
    ```

    ## When this is wrong
    When the strategy that a variable names is NO_SHARD.
    """
    known = program(seen)
    for each in known.calls(*_CLIPS):
        wraps = _wraps(known, each)
        if not wraps or any("NO_SHARD" in wrap.fact.text for wrap in wraps) or _knows_fsdp(known, each):
            continue
        given = each.fact.argument("parameters", 0)
        model = given.text.removesuffix(".parameters()") if given is not None else "model"
        yield Found(
            title="each rank clips its gradients by the norm of its own shards",
            because=f"FullyShardedDataParallel wraps `{model}` (line {wraps[-1].origin.line}), so a rank sees only its"
            " part of the gradient here, and ranks scale by different factors",
            evidence=(each, wraps[-1]),
            fixes=(
                Fix(
                    do="clip with the method of the wrapped model, which takes the norm over all ranks",
                    code=f"{model}.clip_grad_norm_(max_norm)",
                ),
            ),
        )
