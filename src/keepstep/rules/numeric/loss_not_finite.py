# SPDX-License-Identifier: Apache-2.0
"""NUM202: the guard saw the loss become NaN or infinite, and where."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import BatchOdd, LossNotFinite
from keepstep.core.finding import Fix, Found, Safety
from keepstep.core.rule import rule
from keepstep.core.wording import ranks as say_ranks


@rule(
    id="NUM202",
    cause=Cause.NUMERIC_NAN_OR_DIVERGENCE,
    needs=(LossNotFinite,),
    explains=(Cause.USER_CODE_EXCEPTION, Cause.NUMERIC_PLATEAU, Cause.SYNC_REPLICA_DESYNC),
)
def loss_not_finite(seen: EvidenceSet) -> Iterator[Found]:
    """The loss became NaN or infinite and stayed so; the guard saw when, and on which rank first.

    ## What it looks like
    The run goes on, every step takes its time, and the model is lost from that step on.

    ## Why it happens
    A bad batch on one rank, too large a learning rate, a logarithm or a division of zero. With the next all-reduce
    the NaN of one rank is in the weights of all.

    ## How we know
    The guard looks at what the step returns, without waiting for it. Where ranks return losses of their own, the one
    that was NaN a step before the others began it.

    ## What to do
    Look at the batch of that rank at that step; if all ranks began at once, look at the learning rate.

    ## When this is wrong
    A step function whose output is NaN by design (a metric that is not defined yet).
    """
    told = seen.all(LossNotFinite)
    began = next((e.fact.began for e in told if e.fact.began), ())
    named = began if 0 < len(began) < max(e.fact.world for e in told) else ()
    step = min((e.fact.step for e in told if e.fact.step is not None), default=None)
    when = f" after step {step}" if step is not None else ""
    where = f", on {say_ranks(named)} first" if named else ""
    yield Found(
        title=f"the loss became NaN or infinite{when}{where}",
        because=(
            f"{say_ranks(named)} got a batch that holds such values; the others got them with the gradients"
            if named and any(e.fact.kind == "not finite" and e.who in named for e in seen.all(BatchOdd))
            else f"{say_ranks(named)} returned such a loss a step before the others, which got it with the gradients"
            if named
            else "what the step returns has not been finite since; nothing shows that one rank began it"
        ),
        evidence=tuple(told[:8]),
        ranks=named,
        fixes=(
            Fix(do="look at the batches of that step for NaN, empty or extreme values"),
            Fix(do="find the operation that makes the first NaN, in PyTorch", command="torch.autograd.set_detect_anomaly(True)"),
            Fix(do="find the operation that makes the first NaN, in TensorFlow", command="tf.debugging.enable_check_numerics()"),
            Fix(do="find the operation that makes the first NaN, in JAX", command="export JAX_DEBUG_NANS=True"),
            Fix(do="lower the learning rate, warm up longer, clip gradients", safety=Safety.CHANGES_RESULTS),
        ),
    )
