# SPDX-License-Identifier: Apache-2.0
"""COD132: ranks that find a file skip the barrier in which the others wait."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeBlock, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program

_BARRIERS = ("torch.distributed.barrier", "horovod.barrier", "accelerate.Accelerator.wait_for_everyone")
_LOOKS = re.compile(
    r"not (?:os\.path\.(?:exists|isfile|isdir)\((?P<path>[\w.]+)\)|(?P<object>[\w.]+)\.(?:exists|is_file|is_dir)\(\))"
)
_SAYS = ("print", "info", "debug", "warning", "log", "warn", "error", "exists", "isfile", "isdir", "remove", "unlink")


def _makes(call: Call, path: str) -> bool:
    """Whether it gets the path, and does more than say it."""
    if call.fact.method in _SAYS:
        return False
    is_on = call.fact.on is not None and call.fact.on.text == path
    return is_on or any(each.value.text == path for each in call.fact.arguments)


def _made_by_some(known: ProjectFacts, barrier: Call, look: CodeBlock, path: str) -> Call | None:
    """The call before the barrier that makes the path, on some ranks only."""
    for each in known.inside(barrier.fact.function):
        within = each.fact.within
        if each.fact.order >= barrier.fact.order or look not in within or not _makes(each, path):
            continue
        if any(block.kind == "if" and block.ranked for block in within[within.index(look) + 1 :]):
            return each
    return None


def _meets_around(known: ProjectFacts, barriers: list[Call], barrier: Call, look: CodeBlock) -> bool:
    """Whether ranks meet before they look, or on the other side of the condition."""
    return any(
        each.fact.function == barrier.fact.function
        and look not in each.fact.within
        and ((each.origin.line or 0) < look.line or any(block.line == look.line for block in each.fact.within))
        for each in barriers
    )


@rule(id="COD132", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def barrier_behind_own_look(seen: EvidenceSet) -> Findings:
    """A barrier is under `if not exists(path)`, and one rank makes that path in the same branch.

    ## What it looks like
    ```python
    import os
    import torch
    import torch.distributed as dist

    def prepared(raw, path):
        if not os.path.exists(path):
            if dist.get_rank() == 0:
                torch.save(raw.tokens(), path)
            dist.barrier()
        return torch.load(path, map_location="cpu")
    ```

    ## Why it happens
    Each rank looks for itself, when it gets there. One that comes after rank 0 has made the file finds it and goes on.
    The others wait in the barrier for a rank that never comes, or that comes with another collective.

    ## How we know
    The condition looks for a path, some ranks make that path under it, and the barrier is under it, too. Nothing makes
    the ranks meet before they look.

    ## What to do
    ```python
    import os
    import torch
    import torch.distributed as dist

    def prepared(raw, path):
        if dist.get_rank() == 0 and not os.path.exists(path):
            torch.save(raw.tokens(), path)
        dist.barrier()
        return torch.load(path, map_location="cpu")
    ```

    ## When this is wrong
    When a caller makes the ranks meet first, and making the path takes longer than to look.
    """
    known = program(seen)
    leading = known.functions_that_lead_to(_BARRIERS[0])
    through = [each for name in sorted(leading) for each in known.callers(name)]
    barriers = [*known.calls(*_BARRIERS), *through]
    for barrier in barriers:
        for look in barrier.fact.within:
            found = _LOOKS.search(look.text) if look.kind == "if" and not look.ranked else None
            if found is None or any(each.ranked for each in barrier.fact.within):
                continue
            path = found["path"] or found["object"]
            made = _made_by_some(known, barrier, look, path)
            if made is None or _meets_around(known, barriers, barrier, look):
                continue
            yield Found(
                title=f"a rank that already finds {path} skips the barrier",
                because=f"each rank asks `{look.text}` (line {look.line}) for itself, and line {made.origin.line} makes"
                f" `{path}`; who asks after that does not come to `{barrier.fact.text}`",
                evidence=(barrier, made),
                fixes=(Fix(do="let rank 0 alone look, and all ranks meet after the condition"),),
            )
