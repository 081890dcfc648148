# SPDX-License-Identifier: Apache-2.0
"""CFG202: ranks of one world train without exchanging a gradient."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import NothingExchanged
from keepstep.core.finding import Fix, Found, Severity
from keepstep.core.rule import rule


@rule(
    id="CFG202",
    cause=Cause.CONFIG_TRAINS_ALONE,
    needs=(NothingExchanged,),
    explains=(Cause.SYNC_RACE_ON_SHARED_STATE, Cause.SYNC_REPLICA_DESYNC),
)
def nothing_exchanged(seen: EvidenceSet) -> Iterator[Found]:
    """The ranks formed a world, but each trains a model of its own: no gradient is exchanged.

    ## What it looks like
    Nothing fails. Losses differ between ranks, results are those of one rank's share of the data.

    ## Why it happens
    The model was never wrapped in DistributedDataParallel or sharded, or the bare model is trained beside the wrapped one.
    Barriers and averaged metrics make it look as if the ranks worked together.

    ## How we know
    After 80 steps the guard adds up what torch's flight recorder holds: all collectives together moved less than half as many
    numbers as the optimizer trains, and no model was wrapped, on every rank.

    ## What to do
    Wrap the model before the optimizer is made.

    ## When this is wrong
    Gradients that travel by a library of their own; local SGD whose ranks start alike without a broadcast and average more
    rarely than every 80 steps (that is taken back when the first average comes).
    """
    told = seen.all(NothingExchanged)
    if not told or any(e.fact.exchanged >= e.fact.parameters for e in told):
        return
    fact = told[0].fact
    yield Found(
        title=f"{len(fact.ranks)} ranks trained {fact.steps} steps without exchanging a gradient: each trains a model of its own",
        because=f"all collectives together moved {fact.exchanged:,} numbers, and each rank trains {fact.parameters:,} parameters",
        evidence=tuple(told[:4]),
        ranks=fact.ranks,
        severity=Severity.WARNING if seen.broken else None,
        fixes=(Fix(do="wrap the model before the optimizer is made", command="model = torch.nn.parallel.DistributedDataParallel(model)"),),
    )
