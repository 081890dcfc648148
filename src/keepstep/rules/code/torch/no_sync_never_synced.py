# SPDX-License-Identifier: Apache-2.0
"""COD116: the last backward before the step is not synchronised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from keepstep.model.facts import CodeAssigned, CodeCall
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, lazy_pattern, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program

_COUNT = lazy_pattern(r"(.+?)\s*%\s*[\w.]+\s*[!=]=\s*0", most=500)


_CHOSEN = lazy_pattern(r".*\.no_sync\(\) if (.+?) else .*", most=500)


def _others(known: ProjectFacts, backward: Call) -> bool:
    """Whether a backward without no_sync, or an exchange by hand, comes before the step."""
    inside = known.inside(backward.fact.function)
    if not any(each.fact.method == "step" for each in inside):
        callers = [known.inside(each.fact.function) for each in known.callers(backward.fact.function)]
        return not callers or any(
            not any(each.fact.method == "step" for each in calls) or _exchanges(calls) for calls in callers
        )
    return _exchanges(inside)


def _exchanges(calls: Sequence[Call]) -> bool:
    return any(
        (each.fact.method == "backward" and not any(b.made.endswith(".no_sync") for b in each.fact.within))
        or each.fact.name == "torch.distributed.all_reduce"
        for each in calls
    )


def _is_always_entered(known: ProjectFacts, backward: Call, variable: str) -> bool:
    """Whether a ``with`` enters no_sync each time: a variable, or one's own no_sync with an argument, may not."""
    if "(" in variable:
        return ".no_sync()" in variable
    values = [each for each in known.assigned_in.get(backward.fact.function, ()) if each.fact.target == variable]
    return len(values) == 1 and " if " not in values[0].fact.value.text and not values[0].fact.within


def _shifted(known: ProjectFacts) -> Findings:
    """Where no_sync is entered by another count than the step: ``i % n != 0`` against ``(i + 1) % n == 0``."""
    for each in known.assigned_writing("no_sync", "require_backward_grad_sync"):
        entered = _entered_by(each.fact)
        if entered is None:
            continue
        steps = [call for call in known.inside(each.fact.function) if call.fact.method == "step" and call.fact.within]
        counts = [found for call in steps if (found := _COUNT.fullmatch(call.fact.within[-1].text)) is not None]
        if entered and counts and all(_bare(entered[1]) != _bare(count[1]) for count in counts):
            yield Found(
                title="no_sync covers the backward pass right before the step",
                because=f"it is entered by `{entered[0]}`, but the step comes by `{counts[0][0]}`: the last gradients"
                " before the step are not exchanged",
                evidence=(each,),
                fixes=(Fix(do="use the same count for both", safety=Safety.CHANGES_RESULTS),),
            )


def _entered_by(assigned: CodeAssigned) -> re.Match[str] | None:
    """The count by which no_sync is entered: in a branch, in a choice, or by DDP's own switch."""
    text = assigned.value.text
    if text.endswith(".no_sync") and assigned.within:
        return _COUNT.fullmatch(assigned.within[-1].text)
    chosen = _CHOSEN.fullmatch(text)
    if chosen is not None:
        return _COUNT.fullmatch(chosen[1])
    is_switch = assigned.target.endswith(".require_backward_grad_sync")
    return _COUNT.fullmatch(text.strip("()") if text.count("(") == 1 else text) if is_switch else None


def _bare(text: str) -> str:
    return text.replace(" ", "").strip("()")


@rule(id="COD116", cause=Cause.SYNC_REPLICA_DESYNC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def no_sync_never_synced(seen: EvidenceSet) -> Findings:
    """`no_sync` covers the backward pass right before the optimizer's step.

    ## What it looks like
    ```python
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for number, batch in enumerate(loader):
            with model.no_sync():
                model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Why it happens
    Inside `no_sync` gradients stay on their rank. The step then applies each rank's own gradients, and the replicas
    drift apart.

    ## How we know
    All backward passes of the loop run under `no_sync`, or the condition that enters it is not the one of the step
    turned round.

    ## What to do
    ```python
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for first, second in loader:
            with model.no_sync():
                model(first).sum().backward()
            model(second).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## When this is wrong
    When the gradients are averaged by hand before the step.
    """
    known = program(seen)
    for backward in known.methods("backward"):
        entered = [each for each in blocks(backward, "with") if each.made.endswith(".no_sync")]
        if not entered or _others(known, backward):
            continue
        if not _is_always_entered(known, backward, entered[0].text):
            continue
        yield Found(
            title="the optimizer steps on gradients that were never averaged",
            because=f"every backward pass of this loop (line {backward.origin.line}) runs under no_sync, so no gradient"
            " is exchanged",
            evidence=(replace(backward, origin=replace(backward.origin, line=entered[0].line), quote=""), backward),
            fixes=(Fix(do="leave no_sync for the last backward before the step", safety=Safety.CHANGES_RESULTS),),
        )
    yield from _shifted(known)
