# SPDX-License-Identifier: Apache-2.0
"""COD010: one rank skips a step that failed on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keepstep.model.facts import CodeCall, CodeHandler
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code._steps import is_tried_again
from keepstep.rules.code.torch._torch import DDP, FSDP

_BROAD = ("Exception", "RuntimeError", "BaseException", "OutOfMemoryError", "ValueError", "IndexError")


def _catches_failures(caught: str) -> bool:
    return not caught or any(name in caught for name in _BROAD)


_COLLECTIVES = ("torch.distributed.all_reduce", "torch.distributed.all_gather", "horovod.allreduce")
_STEPS = frozenset(
    {
        *_COLLECTIVES,
        *(f"{DDP}.__call__", f"{FSDP}.__call__", "horovod.DistributedOptimizer.step"),
        *("deepspeed.initialize[0].backward", "deepspeed.initialize[0].step", "accelerate.Accelerator.backward"),
    }
)
"""Calls that exchange data with all ranks."""


def _is_a_step(known: ProjectFacts, call: Call, hops: int = 0) -> bool:
    if call.fact.name in _STEPS:
        return True
    if call.fact.target and hops:
        return any(_is_a_step(known, each, hops - 1) for each in known.inside(call.fact.target))
    if call.fact.method != "backward":
        return False
    source = f"{call.fact.on.made} {call.fact.on.parts}" if call.fact.on is not None else ""
    steps = any(each.fact.method == "step" for each in known.inside(call.fact.function))
    return DDP in source or FSDP in source or (steps and bool(known.among(call, DDP, FSDP)))


def _ends(known: ProjectFacts, handler: Evidence[CodeHandler]) -> bool:
    """Whether the handler ends the process, or tells the others."""
    inside = [
        each
        for each in known.inside(handler.fact.function)
        if any(block.kind == "except" and block.line == handler.origin.line for block in each.fact.within)
    ]
    return any(
        each.fact.name.startswith(("sys.exit", "os._exit", "os.kill", "torch.distributed.")) or each.fact.name == "exit"
        for each in inside
    )


def _is_a_probe(known: ProjectFacts, handler: Evidence[CodeHandler], step: Call) -> bool:
    """Whether it asks once, in no loop, what the backend can do, and notes a constant: all ranks get the same."""
    callers = known.callers(handler.fact.function)
    if any(blocks(each, "for", "while") for each in (step, *callers)) or step.fact.name not in _COLLECTIVES:
        return False
    lines = {("try", handler.fact.tried), ("except", handler.origin.line)}
    return any(
        each.fact.value.literal in ("True", "False") and any((at.kind, at.line) in lines for at in each.fact.within)
        for each in known.assigned_in.get(handler.fact.function, ())
    )


def _suppressed(known: ProjectFacts) -> Iterator[tuple[Call, Call]]:
    """The steps in ``with contextlib.suppress(...)``, one of each block, with the place of the block."""
    told = set()
    for each in known.calls_near("suppress"):
        for block in each.fact.within:
            if block.kind != "with" or not block.made.endswith("contextlib.suppress"):
                continue
            place = replace(each, origin=replace(each.origin, line=block.line), quote="")
            if place.origin not in told and _catches_failures(block.text) and _is_a_step(known, each, 1):
                told.add(place.origin)
                yield place, each


def _found(place: Evidence[CodeHandler] | Call, step: Call) -> Found:
    return Found(
        title="a rank whose step fails goes on alone",
        because=f"`{step.fact.text}` (line {step.origin.line}) exchanges data with all ranks; the rank that fails"
        " skips it, and the others wait for it",
        evidence=(place, step),
        fixes=(Fix(do="let the exception end the rank, or let all ranks agree to skip the step"),),
    )


@rule(id="COD010", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeCall, CodeHandler), confidence=Confidence.SUPPORTED)
def failed_step_swallowed(seen: EvidenceSet) -> Findings:
    """An `except` around the training step lets a rank go on alone after its step failed.

    ## What it looks like
    ```python
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for batch in loader:
            try:
                model(batch).sum().backward()
                optimizer.step()
            except RuntimeError:
                print("skipped a batch")
    ```

    ## Why it happens
    The other ranks are in the step's collectives and wait for this one, which is already in its next step. The run
    hangs, or pairs gradients of different steps.

    ## How we know
    The `try` holds a forward, a backward or a collective of a program on several ranks, and the `except` does not
    raise again.

    ## What to do
    ```python
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def train(net, loader, optimizer):
        model = DistributedDataParallel(net)
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
    ```

    ## When this is wrong
    When the exception is sure to come on all ranks at once, or all ranks agree on what to skip.
    """
    known = program(seen)
    for each in known.handlers:
        if each.fact.raises or not _catches_failures(each.fact.caught):
            continue
        in_loop = any(block.kind in ("for", "while") for block in each.fact.within) or any(
            blocks(caller, "for", "while") for caller in known.callers(each.fact.function)
        )
        tried = [call for call in known.tried(each) if not is_tried_again(call)]
        step = next((call for call in tried if _is_a_step(known, call, 2 if in_loop else 0)), None)
        if step is None or _ends(known, each) or _is_a_probe(known, each, step):
            continue
        yield _found(each, step)
    for place, step in _suppressed(known):
        yield _found(place, step)
