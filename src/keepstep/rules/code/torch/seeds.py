# SPDX-License-Identifier: Apache-2.0
"""COD114: a seed differs where it must agree, or agrees where it must differ."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import wraps_with_ddp

_NOISE = ("torch.randn", "torch.rand", "torch.randn_like", "torch.rand_like", "torch.randint")


def _splits(call: Call) -> bool:
    return call.fact.name == "torch.utils.data.random_split" and call.fact.argument("generator") is None


def _equal_seeds(known: ProjectFacts) -> Iterator[Call]:
    """Where a DDP program seeds torch alike on all ranks: the call, or that of the function that does it."""
    for each in known.calls("torch.manual_seed"):
        related = known.related(each)
        seeds = [call for call in known.calls("torch.manual_seed") if call.origin.source in related]
        if not wraps_with_ddp(known, each) or any(_is_by_rank(known, call) for call in seeds):
            continue
        callers = known.callers(each.fact.function)
        yield callers[0] if callers else each


def _is_by_rank(known: ProjectFacts, seed: Call) -> bool:
    given = [argument.value for argument in seed.fact.arguments]
    calls = known.callers(seed.fact.function)
    return any(value.ranked or "rank" in value.text for value in given) or any(
        argument.value.ranked for call in calls for argument in call.fact.arguments
    )


def _is_in_forward(known: ProjectFacts, seed: Call, noise: Call) -> bool:
    """Whether a module of the same program draws it while it trains, from the common generator."""
    if noise.origin.source not in known.related(seed) or noise.fact.argument("generator") is not None:
        return False
    function = noise.fact.function
    owner = function.rpartition(".")[0]
    called = {each.fact.target for each in known.inside(f"{owner}.forward")}
    return function.endswith(".forward") or function in called


@rule(
    id="COD114",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def seeds(seen: EvidenceSet) -> Findings:
    """A seed differs by rank before something that must be equal, or is equal where ranks must draw different numbers.

    ## What it looks like
    ```python
    import torch
    import torch.distributed as dist
    from torch.utils.data import random_split

    def split(data):
        torch.manual_seed(1234 + dist.get_rank())
        return random_split(data, [900, 100])
    ```

    ## Why it happens
    A split, a shuffled list of files or an initialisation must be the same everywhere: with a seed of its own each
    rank validates on what another one trains on. Noise and augmentation must differ, or N ranks do the work of one.

    ## How we know
    A seed made from the rank comes right before a split without a generator of its own; or one equal seed is all
    there is, and the model itself draws random numbers in its forward.

    ## What to do
    ```python
    import torch
    import torch.distributed as dist
    from torch.utils.data import random_split

    def split(data):
        torch.manual_seed(1234)
        return random_split(data, [900, 100])
    ```

    ## When this is wrong
    When the random numbers in the forward are meant to be the same on all ranks.
    """
    known = program(seen)
    for each in known.calls("torch.manual_seed", "random.seed", "numpy.random.seed"):
        if any(argument.value.ranked for argument in each.fact.arguments):
            after = [call for call in known.inside(each.fact.function) if call.fact.order > each.fact.order]
            split = next((call for call in after if _splits(call)), None)
            if split is not None:
                yield Found(
                    title="each rank splits the data by a seed of its own",
                    because=f"`{split.fact.text}` (line {split.origin.line}) must give the same parts on all ranks",
                    evidence=(each, split),
                    fixes=(Fix(do="use the same seed on all ranks for the split", safety=Safety.CHANGES_RESULTS),),
                )
    for each in _equal_seeds(known):
        noise = next((call for call in known.calls(*_NOISE) if _is_in_forward(known, each, call)), None)
        if noise is not None:
            yield Found(
                title="all ranks draw the same random numbers",
                because=f"every rank starts from the same seed, and the model draws noise (`{noise.fact.text}`, line"
                f" {noise.origin.line}): N ranks see the same noise",
                evidence=(each, noise),
                fixes=(Fix(do="add the rank to the seed once the model is made", safety=Safety.CHANGES_RESULTS),),
            )
