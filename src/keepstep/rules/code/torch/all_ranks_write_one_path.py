# SPDX-License-Identifier: Apache-2.0
"""COD120: every rank writes the same file."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, is_on_some_ranks, program
from keepstep.rules.code.torch._torch import INIT, runs_several_processes

_WRITING = ("'w'", "'wb'", "'x'", "'xb'", "'w+'")
_RANKS_OWN = ("rank", "local", "proc", "worker", "shard", "hostname", "getpid", "uuid", "tmp", "temp", "devnull")


def _writes(call: Call) -> bool:
    path = call.fact.argument("f", 1) if call.fact.name == "torch.save" else call.fact.argument("file", 0)
    if path is None or path.ranked or any(word in path.text.lower() for word in _RANKS_OWN):
        return False
    if any("lock" in block.text.lower() for block in call.fact.within):
        return False
    mode = call.fact.argument("mode", 1)
    return call.fact.name == "torch.save" or (mode is not None and mode.literal in _WRITING)


def _is_by_rank(known: ProjectFacts, place: Call, hops: int) -> bool:
    """Whether a condition of the rank decides, here or in a caller; unknown callers may well ask one."""
    if is_on_some_ranks(place) or hops == 0:
        return True
    function = place.fact.function
    if function.endswith(".<module>"):
        return function not in known.functions_that_lead_to(INIT)
    if any(_leaves_others(each) for each in known.inside(function) if each.fact.order < place.fact.order):
        return True
    roots = known.functions_that_lead_to(INIT)
    if function in roots:
        return False  # it runs on all ranks
    callers = known.callers(function)
    if place.fact.name == "open" and not any(each.fact.function in roots for each in callers):
        return True  # a helper, called from far away
    return not callers or any(_is_by_rank(known, each, hops - 1) for each in callers)


def _leaves_others(call: Call) -> bool:
    return call.fact.method in ("get_rank", "is_main_process") and not call.fact.assigned


@rule(
    id="COD120",
    cause=Cause.CHECKPOINT_CORRUPT_OR_MISSING,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def all_ranks_write_one_path(seen: EvidenceSet) -> Findings:
    """All ranks write to one path.

    ## What it looks like
    ```python
    import torch
    import torch.distributed as dist

    def train(model, path):
        dist.init_process_group("gloo")
        torch.save(model.state_dict(), path)
    ```

    ## Why it happens
    The ranks write over each other. The file may hold a mixture, or be half written when another rank reads it.

    ## How we know
    The call stands under no condition of the rank, in its function and in those that call it, and its path does not
    contain the rank.

    ## What to do
    ```python
    import torch
    import torch.distributed as dist

    def train(model, path):
        dist.init_process_group("gloo")
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), path)
    ```

    ## When this is wrong
    When each rank has a folder of its own, or the function is called on one rank by code that was not read.
    """
    known = program(seen)
    for each in known.calls("torch.save", "open"):
        if not runs_several_processes(known, each) or not _writes(each) or _is_by_rank(known, each, 4):
            continue
        yield Found(
            title="all ranks write to the same path",
            because=f"`{each.fact.text}` runs on every rank, and the path is the same on all of them: they write over"
            " each other",
            evidence=(each,),
            fixes=(Fix(do="write on rank 0 only, or put the rank into the path"),),
        )
