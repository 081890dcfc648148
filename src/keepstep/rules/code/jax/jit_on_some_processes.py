# SPDX-License-Identifier: Apache-2.0
"""COD303: only some processes run a compiled step on global arrays."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import decided, diverging, program, reached_by, short
from keepstep.rules.code.jax._jax import leaves_global_program


@rule(
    id="COD303",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(CodeDiverges,),
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def jit_on_some_processes(seen: EvidenceSet) -> Findings:
    """A compiled step is under a condition that differs by process.

    ## What it looks like
    ```python
    import jax
    from jax.sharding import NamedSharding

    @jax.jit
    def evaluate(weights, batch):
        return ((batch @ weights) ** 2).mean()

    def report(weights, batch):
        if jax.process_index() == 0:
            print(evaluate(weights, batch))
    ```

    ## Why it happens
    A program on global arrays runs on the devices of all processes, and each of them must start it, in the same
    order. One process alone waits for the others' devices for ever, or the runtime aborts it.

    ## How we know
    The order of compiled programs is followed on process 0 and on another one, through the functions that are
    called. The file divides arrays among devices, or the function was made by `pmap`.

    ## What to do
    ```python
    import jax
    from jax.sharding import NamedSharding

    @jax.jit
    def evaluate(weights, batch):
        return ((batch @ weights) ** 2).mean()

    def report(weights, batch):
        loss = evaluate(weights, batch)
        if jax.process_index() == 0:
            print(loss)
    ```

    ## When this is wrong
    When the arrays that it is given lie on the devices of one process.
    """
    known = program(seen)
    for each in diverging(seen, ["compiled"], ["branch", "exit", "loop", "sides"]):
        if leaves_global_program(known, each):
            continue  # COD002 says so
        fact = each.fact
        yield Found(
            title=f"{short(fact.collective)} is run by some processes only",
            because=f"`{fact.condition}` ({decided(fact)}) differs by process, and"
            f" {short(fact.collective)}{reached_by(fact)} is a program for the devices of all processes",
            evidence=(each,),
            fixes=(Fix(do="run it on all processes, and restrict only what prints or writes to one"),),
        )
