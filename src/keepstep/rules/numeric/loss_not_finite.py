# SPDX-License-Identifier: Apache-2.0
"""NUM203: a rank's loss was not finite, by its guard."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import LossNotFinite
from keepstep.core.facts.training import NonFinite
from keepstep.core.finding import Fix, Found, Safety, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import ranks as say_ranks

LASTING = 10


@rule(
    id="NUM203",
    cause=Cause.NUMERIC_NAN_OR_DIVERGENCE,
    needs=(LossNotFinite,),
    explains=(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.USER_CODE_EXCEPTION,
        Cause.NUMERIC_PLATEAU,
    ),
)
def loss_not_finite(seen: EvidenceSet) -> Iterator[Found]:
    """The loss of a rank was NaN or infinite; the averaged gradients then made it so on all ranks.

    ## What it looks like
    `loss nan` on all ranks from some step on; whichever rank prints first looks guilty.

    ## Why it happens
    A bad batch on one rank, a division by zero, too large a learning rate, half precision that overflows.

    ## How we know
    The guard looks at each rank's own loss before its backward pass. The rank whose loss was not finite in the earliest step began it.

    ## What to do
    Look at the batch of that rank and step.

    ## When this is wrong
    Where all ranks have it in the same step, their common weights are to blame: a gradient of the step before, or the learning rate.
    """
    told = sorted(seen.all(LossNotFinite), key=lambda e: e.fact.step)
    first = [e for e in told if e.fact.step == told[0].fact.step]
    ranks = tuple(dict.fromkeys(e.who for e in first if e.who is not None))
    lasting = max(e.fact.times for e in told) >= LASTING or any(e.fact.fatal for e in seen.all(NonFinite))
    alone = len(ranks) == 1
    yield Found(
        title=f"{say_ranks(ranks)}: the loss was {first[0].fact.value} in step {first[0].fact.step}",
        because=(
            "the guard looked at every rank's own loss; it was not finite there first, and the averaged gradients took it to all ranks"
            if alone
            else "these ranks' losses were not finite in the same step: their common weights are"
        ),
        evidence=tuple(first[:8]),
        ranks=ranks,
        severity=None if lasting else Severity.WARNING,
        fixes=(
            Fix(do=f"look at the batch of {say_ranks(ranks[:1])} in step {first[0].fact.step} for NaN, empty or extreme values")
            if alone
            else Fix(do="lower the learning rate, warm up longer, clip gradients", safety=Safety.CHANGES_RESULTS),
            Fix(do="stop before such a step in future", command="KEEPSTEP=strict python train.py"),
        ),
    )
