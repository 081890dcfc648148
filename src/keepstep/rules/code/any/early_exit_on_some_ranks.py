# SPDX-License-Identifier: Apache-2.0
"""COD002: some ranks leave before a collective."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import decided, diverging, program, reached_by, short
from keepstep.rules.code.jax._jax import leaves_global_program


@rule(id="COD002", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeDiverges,), confidence=Confidence.SUPPORTED)
def early_exit_on_some_ranks(seen: EvidenceSet) -> Findings:
    """Some ranks leave a function or a loop before a collective that the others go on to issue.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def average(metric, rank):
        if rank != 0:
            return metric
        dist.all_reduce(metric)
        return metric / dist.get_world_size()
    ```

    ## Why it happens
    The ranks that stay wait in the collective for those that have left. A `continue` or `break` that only some ranks
    take does the same to a loop.

    ## How we know
    The order of collectives is followed on rank 0 and on another rank, through the functions that are called. Here the
    two differ. A compiled program of JAX is one of them where it is given an array that all processes made together.

    ## What to do
    ```python
    import torch.distributed as dist

    def average(metric, rank):
        dist.all_reduce(metric)
        if rank != 0:
            return metric
        return metric / dist.get_world_size()
    ```

    ## When this is wrong
    When the condition is the same on all ranks after all, or the ranks that leave issue the collective elsewhere.
    """
    known = program(seen)
    kinds = ["collective", "forward", "backward", "save", "checkpoint", "group", "compiled"]
    for each in diverging(seen, kinds, ["exit"]):
        fact = each.fact
        if fact.kind == "compiled" and not leaves_global_program(known, each):
            continue
        yield Found(
            title=f"some ranks leave before {short(fact.collective)}",
            because=f"ranks for which `{fact.condition}` ({decided(fact)}) holds {fact.other} here; the"
            f" others go on to {short(fact.collective)} (line {fact.other_line}{reached_by(fact)}) and wait for them",
            evidence=(each,),
            fixes=(Fix(do="let all ranks issue the collective before some of them leave"),),
        )
