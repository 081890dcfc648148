# SPDX-License-Identifier: Apache-2.0
"""COD308: only some processes save a checkpoint that all must save."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import decided, diverging, program, reached_by, short

_SOME = "orbax.checkpoint.options.MultiprocessingOptions"


@rule(
    id="COD308", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeDiverges, CodeCall), confidence=Confidence.SUPPORTED
)
def checkpoint_on_one_process(seen: EvidenceSet) -> Findings:
    """A checkpoint that all processes must save or restore is left to some of them.

    ## What it looks like
    ```python
    import jax
    import orbax.checkpoint as ocp

    def save(manager: ocp.CheckpointManager, step, state):
        if jax.process_index() == 0:
            manager.save(step, args=ocp.args.StandardSave(state))
    ```

    ## Why it happens
    orbax writes the parts of a global array where they lie, and its processes meet before and after. The one that
    calls it alone waits for the others until it times out.

    ## How we know
    The order of such calls is followed on process 0 and on another one, through the functions that are called. Here
    the two differ.

    ## What to do
    ```python
    import jax
    import orbax.checkpoint as ocp

    def save(manager: ocp.CheckpointManager, step, state):
        manager.save(step, args=ocp.args.StandardSave(state))
    ```

    ## When this is wrong
    When orbax was told which processes take part (`active_processes`).
    """
    known = program(seen)
    for each in diverging(seen, ["checkpoint"], ["branch"]):
        fact = each.fact
        if known.among(each, _SOME):
            continue
        yield Found(
            title=f"{short(fact.collective)} needs all processes, and only some call it",
            because=f"under `{fact.condition}` ({decided(fact)}) only some processes reach"
            f" {short(fact.collective)}{reached_by(fact)}; it waits there for all of them",
            evidence=(each,),
            fixes=(Fix(do="let all processes call it; orbax itself chooses who writes"),),
        )
