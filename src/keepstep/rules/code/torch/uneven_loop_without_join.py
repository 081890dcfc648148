# SPDX-License-Identifier: Apache-2.0
"""COD109: ranks may have different numbers of batches."""

from __future__ import annotations

from dataclasses import replace

from keepstep.model.facts import CodeBlock, CodeCall
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Origin, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code.torch._torch import DDP, LOADER


def _trains(known: ProjectFacts, call: Call) -> bool:
    """Whether it is a step: a backward, or a function of the program with one in it."""
    if call.fact.method == "backward":
        return True
    return bool(call.fact.target) and any(each.fact.method == "backward" for each in known.inside(call.fact.target))


def _is_uneven(known: ProjectFacts, place: Call, loop: CodeBlock) -> bool:
    """Whether the loader of a loop was made from data that depends on the rank."""
    loaders = [each for each in known.inside(place.fact.function) if each.fact.name == LOADER]
    mine = [each for each in loaders if loop.text in (each.fact.assigned, f"enumerate({each.fact.assigned})")]
    for each in mine:
        data = each.fact.argument("dataset", 0)
        makers = [
            call for call in known.inside(place.fact.function) if data is not None and call.fact.text == data.text
        ]
        if data is not None and (data.ranked or any(a.value.ranked for call in makers for a in call.fact.arguments)):
            return True
    return False


def _joins(known: ProjectFacts, place: Call) -> bool:
    return any(each.fact.method in ("Join", "join") for each in known.inside(place.fact.function))


@rule(
    id="COD109",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def uneven_loop_without_join(seen: EvidenceSet) -> Findings:
    """Ranks go through data of their own, whose length may differ, with DDP and without Join.

    ## What it looks like
    ```python
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    def train(net, files):
        model = DistributedDataParallel(net)
        loader = DataLoader(
            files[dist.get_rank() :: dist.get_world_size()], batch_size=8
        )
        for batch in loader:
            model(batch).sum().backward()
    ```

    ## Why it happens
    The rank with one batch more issues collectives for which nobody else comes. It hangs at the end of the epoch.

    ## How we know
    The loader's data is made from the rank, the loop over it trains a model wrapped with DDP, and there is no
    `Join`.

    ## What to do
    ```python
    import torch.distributed as dist
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    def train(net, files):
        model = DistributedDataParallel(net)
        loader = DataLoader(
            files[dist.get_rank() :: dist.get_world_size()], batch_size=8
        )
        with Join([model]):
            for batch in loader:
                model(batch).sum().backward()
    ```

    ## When this is wrong
    When all parts have the same length by construction.
    """
    known = program(seen)
    told = set()
    for each in known.calls_near("DataLoader"):
        loops = [block for block in blocks(each, "for") if block.made.startswith(LOADER)]
        if not loops or not known.among(each, DDP) or not _trains(known, each) or _joins(known, each):
            continue
        place = (each.origin.source, loops[-1].line)
        if place not in told and _is_uneven(known, each, loops[-1]):
            told.add(place)
            yield Found(
                title="ranks may have different numbers of batches, and the rest of one waits for ever",
                because=f"`{loops[-1].text}` goes over data made from the rank, and each step exchanges gradients",
                evidence=(replace(each, origin=Origin(source=place[0], line=place[1]), quote=""),),
                fixes=(Fix(do="use Join, cut all parts to the same length, or a DistributedSampler"),),
            )
