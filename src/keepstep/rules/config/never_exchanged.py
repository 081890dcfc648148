# SPDX-License-Identifier: Apache-2.0
"""CFG206: ranks joined one world and then trained separately."""

from __future__ import annotations

from keepstep.model.facts import NeverExchanged
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.trains_apart import trains_apart


@rule(
    id="CFG206",
    cause=Cause.CONFIG_TRAINS_ALONE,
    needs=(NeverExchanged,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.SYNC_RACE_ON_SHARED_STATE, Cause.SYNC_REPLICA_DESYNC),
)
def never_exchanged(seen: EvidenceSet) -> Findings:
    """The ranks joined one world but exchange no gradients: each trains its own model.

    ## What it looks like
    Nothing fails. The ranks print different losses, the model learns no faster than with one rank, and they
    overwrite each other's checkpoints.

    ## Why it happens
    PyTorch: the model was never wrapped in DistributedDataParallel or sharded. Barriers and averaged metrics make it
    look as if the ranks worked together. JAX: the mesh was made from `jax.local_devices()`;
    `jax.distributed.initialize()` alone exchanges no gradients.

    ## How we know
    PyTorch: after 80 steps, the guard adds up what torch's flight recorder holds. On every rank, all collectives
    together moved less than half as many numbers as the optimizer trains, and no model was wrapped. JAX: the guard
    reads the collectives of every compiled program. After 50 steps, this process had run none that spans other
    processes.

    ## What to do
    PyTorch: wrap the model before creating the optimizer. JAX: make the mesh from `jax.devices()`, and the batch a
    global array.

    ## When this is wrong
    A separate library exchanges the gradients. Or training exchanges weights only once in many steps: the finding is
    withdrawn when that happens.
    """
    ranks, apart = trains_apart(seen)
    if not apart:
        return
    fact = apart[0].fact
    everyone = fact.exchanged is not None
    yield Found(
        title=f"{say_ranks(ranks)} trained {fact.steps} steps without exchanging gradients, in a world of {fact.world}",
        because=(
            f"all collectives together moved {fact.exchanged:,} numbers, "
            f"and each rank trains {fact.parameters or 0:,} parameters"
            if everyone
            else "no program of these steps spans more than one process: each trains its own model"
        ),
        evidence=apart[:8],
        ranks=ranks,
        severity=Severity.WARNING if everyone and seen.broken else None,
        fixes=_FIXES.get(fact.framework, ()),
    )


_FIXES = {
    "torch": (
        Fix(
            do="wrap the model before creating the optimizer",
            code="model = torch.nn.parallel.DistributedDataParallel(model)",
        ),
    ),
    "jax": (
        Fix(
            do="make the mesh from the devices of all processes",
            code='mesh = jax.make_mesh((jax.device_count(),), ("data",))',
        ),
        Fix(
            do="make each batch a global array",
            code='jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("data")), batch)',
        ),
    ),
}
