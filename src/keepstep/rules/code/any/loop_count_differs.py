# SPDX-License-Identifier: Apache-2.0
"""COD003: a loop around a collective depends on the rank."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import ProjectFacts, diverging, program, reached_by, short

_SHARE = re.compile(r"^(?P<all>[\w.]+)\[[^\]:]*:[^\]:]*:\s*(?P<ranks>[\w.()]+)\]$")
_NAME = re.compile(r"[A-Za-z_]\w*")
FARTHEST = 3
"""Assignments that are followed to where a length comes from."""


@rule(id="COD003", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeDiverges,), confidence=Confidence.SUPPORTED)
def loop_count_differs(seen: EvidenceSet) -> Findings:
    """A loop around a collective runs a number of times that differs by rank.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def count_all(files, rank, world_size, total):
        for name in files[rank::world_size]:
            total += read(name)
            dist.all_reduce(total)
    ```

    ## Why it happens
    Where the share of one rank is longer, it issues collectives for which nobody else comes: it hangs in the last one,
    or pairs it with another.

    ## How we know
    What the loop goes over is made from the rank, and its body issues a collective.

    ## What to do
    ```python
    import torch.distributed as dist

    def count_all(files, rank, world_size, total):
        for name in files[rank::world_size]:
            total += read(name)
        dist.all_reduce(total)
    ```

    ## When this is wrong
    When every rank's share has the same length by construction.
    """
    for each in diverging(seen, ["collective", "forward", "backward", "save", "checkpoint", "group"], ["loop"]):
        fact = each.fact
        if _is_even(program(seen), fact):
            continue
        yield Found(
            title=f"ranks make different numbers of turns, and each issues {short(fact.collective)}",
            because=f"`{fact.condition}` is made from the rank; the rank with more turns waits in"
            f" {short(fact.collective)} (line {fact.other_line}{reached_by(fact)}) for ranks that have left the loop",
            evidence=(each,),
            fixes=(Fix(do="issue the collective once after the loop, or give every rank the same number of turns"),),
        )


def _is_even(known: ProjectFacts, fact: CodeDiverges) -> bool:
    """Whether the number of ranks goes into how long the list is: then it was made for all to have the same share."""
    share = _SHARE.match(fact.condition)
    if share is None:
        return False
    assigned = known.assigned_in.get(fact.function, ())
    names = {share["all"]}
    for _ in range(FARTHEST):
        texts = [each.fact.value.text for each in assigned if each.fact.target in names]
        if any(share["ranks"] in text for text in texts):
            return True
        names |= {name for text in texts for name in _NAME.findall(text)}
    return False
