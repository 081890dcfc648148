# SPDX-License-Identifier: Apache-2.0
"""CFG206: processes joined a world and then trained apart."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import NeverExchanged
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import ranks as say_ranks


@rule(
    id="CFG206",
    cause=Cause.CONFIG_TRAINS_ALONE,
    needs=(NeverExchanged,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.SYNC_RACE_ON_SHARED_STATE, Cause.SYNC_REPLICA_DESYNC),
)
def never_exchanged(seen: EvidenceSet) -> Iterator[Found]:
    """Processes joined a world of several, and then each trained a model of its own.

    ## What it looks like
    Nothing fails. The processes print different losses, the model learns no faster than with one process, and they
    overwrite each other's checkpoints.

    ## Why it happens
    The mesh was made of `jax.local_devices()`, or the arrays were put on local devices: `jax.distributed.initialize()` alone
    moves no gradient.

    ## How we know
    The guard reads the collectives of every compiled program. After fifty steps this process had run none that spans other processes.

    ## What to do
    Make the mesh of `jax.devices()`, and the batch a global array.

    ## When this is wrong
    Training that is meant to exchange weights only once in many steps: it is taken back as soon as that happens.
    """
    newest = {e.who: e for e in seen.all(NeverExchanged)}
    apart = tuple(e for e in newest.values() if not e.fact.over)
    if not apart:
        return
    fact, ranks = apart[0].fact, tuple(sorted(e.who for e in apart if e.who is not None))
    yield Found(
        title=f"{say_ranks(ranks)} exchanged nothing in {fact.steps} steps, in a world of {fact.world}",
        because="no program of these steps spans more than one process: each trains a model of its own",
        evidence=apart[:8],
        ranks=ranks,
        fixes=(
            Fix(do="make the mesh of all processes' devices", command='mesh = jax.make_mesh((jax.device_count(),), ("data",))'),
            Fix(
                do="make each batch a global array",
                command='jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("data")), batch)',
            ),
        ),
    )
