# SPDX-License-Identifier: Apache-2.0
"""COD105: the DistributedSampler never hears of a new epoch."""

from __future__ import annotations

import re
from dataclasses import replace

from keepstep.model.facts import CodeCall, Fact
from keepstep.rules.api import (
    Cause,
    Confidence,
    Edit,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Origin,
    Severity,
    rule,
)
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code._edits import first_in_loop
from keepstep.rules.code.torch._torch import LOADER, SAMPLER, TRAINERS

_DEEPEST = 3
_EVALUATION = re.compile(r"(?i)(?<![a-z])(?:val|valid|validation|test|eval|evaluation|dev)(?![a-z])")


def _epochs(known: ProjectFacts, sampler: Call) -> Evidence[Fact] | None:
    """The loop over epochs: the outermost one around a backward pass, if there are two, or a call that leads to it."""
    related = known.related(sampler)
    for backward in known.methods("backward"):
        if backward.origin.source in related:
            outermost = _outermost(known, backward, 0, _DEEPEST)
            if outermost is not None:
                return outermost
    return None


def _outermost(known: ProjectFacts, place: Call, loops: int, hops: int) -> Evidence[Fact] | None:
    """The first loop on the way to a place, if it is not the only one."""
    own = [each for each in blocks(place, "for", "while") if each.kind == "for" or "epoch" in each.text.lower()]
    for caller in known.callers(place.fact.function) if hops else ():
        further = _outermost(known, caller, loops + len(own), hops - 1)
        if further is not None:
            return further
    return _at(place, own[0].line) if own and loops + len(own) > 1 else None


def _sets_epoch(known: ProjectFacts, sampler: Call) -> bool:
    """Whether the sampler may hear of the epochs: not only of a constant one, and not only another sampler does."""
    others = {
        each.fact.assigned
        for each in known.calls(SAMPLER)
        if each.fact.assigned and each.fact.assigned != sampler.fact.assigned and each.origin == _same(each, sampler)
    }
    for each in known.methods_among(sampler, "set_epoch"):
        told = each.fact.argument("epoch", 0)
        is_constant = told is not None and told.literal is not None and not blocks(each, "for", "while")
        if not is_constant and (each.fact.on is None or each.fact.on.text not in others):
            return True
    return False


def _is_for_evaluation(known: ProjectFacts, sampler: Call) -> bool:
    """Whether the sampler, its data or the only loaders that it is given to are named after an evaluation."""
    data, name = sampler.fact.argument("dataset", 0), sampler.fact.assigned
    if _says_evaluation(name) or (data is not None and "(" not in data.text and _says_evaluation(data.text)):
        return True
    given = name or sampler.fact.text
    loaders = [
        each.fact.assigned
        for each in known.inside(sampler.fact.function)
        if each.fact.name == LOADER and (using := each.fact.argument("sampler", 3)) is not None and using.text == given
    ]
    return bool(loaders) and all(_says_evaluation(each) for each in loaders)


def _says_evaluation(name: str) -> bool:
    return _EVALUATION.search(name) is not None and "train" not in name.lower()


def _is_of_new_data(known: ProjectFacts, sampler: Call) -> bool:
    """Whether it is made anew in a loop, of data that the same loop makes: then no order comes twice."""
    data, around = sampler.fact.argument("dataset", 0), blocks(sampler, "for", "while")
    return data is not None and any(
        each.fact.target == data.text and any(at in each.fact.within for at in around)
        for each in known.assigned_in.get(sampler.fact.function, ())
    )


def _same(each: Call, sampler: Call) -> Origin | None:
    return each.origin if each.fact.function == sampler.fact.function else None


def _at(place: Call, line: int) -> Evidence[Fact]:
    return replace(place, origin=Origin(source=place.origin.source, line=line), quote="")


def _edit(known: ProjectFacts, sampler: Call, loop: Evidence[Fact]) -> Edit | None:
    """The line to add, if the loop sees the sampler, or the loader that was given it, under a name that it knows."""
    holder = _holder(known, sampler)
    here = isinstance(loop.fact, CodeCall) and _is_seen(holder, sampler, loop.fact)
    if not here or loop.origin.source != sampler.origin.source or loop.origin.line is None:
        return None
    if not holder.startswith("self.") and loop.origin.line < (sampler.origin.line or 0):
        return None
    return first_in_loop(known, loop.origin.source, loop.origin.line, holder + ".set_epoch({})")


def _holder(known: ProjectFacts, sampler: Call) -> str:
    """How the sampler is written: by its variable, or by that of the one loader that it is written in."""
    if sampler.fact.assigned:
        made = sampler.fact.assigned if _is_always(sampler) else ""
    else:
        loaders = [
            each.fact.assigned
            for each in known.inside(sampler.fact.function)
            if each.fact.name == LOADER and sampler.fact.text in each.fact.text and _is_always(each)
        ]
        made = f"{loaders[0]}.sampler" if len(loaders) == 1 and loaders[0] else ""
    return made if re.fullmatch(r"(?:self\.)?[A-Za-z_]\w*(?:\.sampler)?", made) else ""


def _is_always(call: Call) -> bool:
    """Whether no condition decides if it is made: then its variable holds nothing else."""
    return not blocks(call, "if", "else", "try", "except", "for", "while")


def _is_seen(holder: str, sampler: Call, loop: CodeCall) -> bool:
    """A variable is seen in its own function, what ``self`` holds in the methods of its class."""
    if holder.startswith("self."):
        return sampler.fact.function.rpartition(".")[0] == loop.function.rpartition(".")[0]
    return bool(holder) and sampler.fact.function == loop.function


@rule(
    id="COD105",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def no_set_epoch(seen: EvidenceSet) -> Findings:
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
    A loop over epochs goes around the loop over the loader, and no file of the program calls `set_epoch` on this
    sampler with anything but a constant. The order of an evaluation does not matter, and data that each turn makes
    anew has no order to repeat.

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
        if _sets_epoch(known, each) or known.any_imports(each, *TRAINERS):
            continue
        if _is_for_evaluation(known, each) or _is_of_new_data(known, each):
            continue
        loop = _epochs(known, each)
        if loop is not None and (loop.origin.source, loop.origin.line) not in told:
            told.add((loop.origin.source, loop.origin.line))
            yield Found(
                title="every epoch has the same order: set_epoch is never called",
                because="the DistributedSampler shuffles by its seed and the epoch that set_epoch tells it;"
                " without it each rank sees the same samples in the same order every time",
                evidence=(loop, each),
                fixes=(
                    Fix(do="call sampler.set_epoch(epoch) at the start of each epoch", edit=_edit(known, each, loop)),
                ),
            )
