# SPDX-License-Identifier: Apache-2.0
"""COD008: one rank repeats a collective alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.code import CodeCall
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule
from keepstep.rules.code._asking import Call, Program, blocks, program

_COLLECTIVES = frozenset(
    f"{library}.{name}"
    for library, names in (
        (
            "torch.distributed",
            ("all_reduce", "all_gather", "broadcast", "barrier", "reduce", "all_gather_object", "gather"),
        ),
        ("horovod", ("allreduce", "allgather", "broadcast", "barrier")),
    )
    for name in names
)
_RETRY = re.compile(r"(?i)retr|attempt|tries")


def _is_retried(known: Program, call: Call) -> bool:
    """In a ``try`` inside a loop, in a function named after retries."""
    name = call.fact.function.rpartition(".")[2]
    tried, loops = blocks(call, "try"), blocks(call, "for", "while")
    return bool(tried and loops and loops[-1].line < tried[-1].line and _RETRY.search(name))


@rule(id="COD008", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def collective_retried(seen: EvidenceSet) -> Iterator[Found]:
    """A collective is tried again by the rank on which it failed.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def reduce_with_retries(tensor):
        for attempt in range(3):
            try:
                dist.all_reduce(tensor)
                return tensor
            except RuntimeError:
                continue
    ```

    ## Why it happens
    The others have finished the collective, or wait in the next one. The repeated one meets another of theirs:
    wrong numbers, or a hang. After a failure the group cannot be used any more.

    ## How we know
    The collective stands in a `try` inside a loop that counts attempts, or in the `except` itself.

    ## What to do
    ```python
    import torch.distributed as dist

    def reduce_once(tensor):
        dist.all_reduce(tensor)
        return tensor
    ```

    ## When this is wrong
    When all ranks are sure to fail together, and the group is made anew.
    """
    known = program(seen)
    for each in known.named(_COLLECTIVES.__contains__):
        handlers = blocks(each, "except")
        loops = [block for block in blocks(each, "for", "while") if _RETRY.search(block.text)]
        tried = blocks(each, "try")
        if handlers or (loops and tried and loops[-1].line < tried[-1].line) or _is_retried(known, each):
            yield Found(
                title="a rank repeats a collective that failed on it",
                because=f"`{each.fact.text}` is issued again by the rank on which it failed; by then the others are"
                " elsewhere",
                evidence=(each,),
                fixes=(Fix(do="let the failure end the run, and restart all ranks"),),
            )
