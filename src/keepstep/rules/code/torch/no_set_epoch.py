# SPDX-License-Identifier: Apache-2.0
"""COD105: the DistributedSampler never hears of a new epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet, Origin
from keepstep.core.facts.base import Fact
from keepstep.core.facts.code import CodeCall
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.code._asking import Call, Program, blocks, program
from keepstep.rules.code.torch._torch import SAMPLER, TRAINERS


def _epochs(known: Program, sampler: Call) -> Evidence[Fact] | None:
    """The loop over epochs: around a loop that trains, or around a call of a function that does."""
    related = known.related(sampler)
    for backward in known.methods("backward"):
        if backward.origin.source not in related:
            continue
        loops = blocks(backward, "for")
        if len(loops) > 1:
            return _at(backward, loops[0].line)
        callers = known.callers(backward.fact.function) if loops else ()
        for caller in callers:
            around = blocks(caller, "for")
            if around:
                return _at(caller, around[0].line)
    return None


def _at(place: Call, line: int) -> Evidence[Fact]:
    return replace(place, origin=Origin(source=place.origin.source, line=line), quote="")


@rule(
    id="COD105",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def no_set_epoch(seen: EvidenceSet) -> Iterator[Found]:
    """A DistributedSampler shuffles, there are several epochs, and nobody calls `set_epoch`.

    ## What it looks like
    ```python
    from torch.utils.data import DataLoader, DistributedSampler

    def train(data, step):
        loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
        for epoch in range(10):
            for batch in loader:
                loss = step(batch)
                loss.backward()
    ```

    ## Why it happens
    The sampler derives its order from its seed and the epoch that it was told. Without `set_epoch` every epoch has
    the same order, and each rank sees the same part of the data for ever.

    ## How we know
    A loop over epochs goes around the loop over the loader, and no file of the program calls `set_epoch`.

    ## What to do
    ```python
    from torch.utils.data import DataLoader, DistributedSampler

    def train(data, step):
        sampler = DistributedSampler(data)
        loader = DataLoader(data, batch_size=32, sampler=sampler)
        for epoch in range(10):
            sampler.set_epoch(epoch)
            for batch in loader:
                loss = step(batch)
                loss.backward()
    ```

    ## When this is wrong
    When a library in between calls `set_epoch`, or the data is used only once.
    """
    known = program(seen)
    told = set()
    for each in known.calls(SAMPLER):
        shuffle = each.fact.argument("shuffle", 3)
        if shuffle is not None and shuffle.literal != "True":
            continue
        if known.methods_among(each, "set_epoch") or known.any_imports(each, *TRAINERS):
            continue
        loop = _epochs(known, each)
        if loop is not None and (loop.origin.source, loop.origin.line) not in told:
            told.add((loop.origin.source, loop.origin.line))
            yield Found(
                title="every epoch has the same order: set_epoch is never called",
                because="the DistributedSampler shuffles by its seed and the epoch that set_epoch tells it;"
                " without it each rank sees the same samples in the same order every time",
                evidence=(loop, each),
                fixes=(Fix(do="call sampler.set_epoch(epoch) at the start of each epoch"),),
            )
