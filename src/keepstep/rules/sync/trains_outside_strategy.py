# SPDX-License-Identifier: Apache-2.0
"""SYN207: the workers of a world train separately, because model or step are outside the strategy."""

from __future__ import annotations

from keepstep.model.facts import TrainsApart
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.api import ranks as say_ranks


@rule(
    id="SYN207",
    cause=Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE,
    needs=(TrainsApart,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.SYNC_RACE_ON_SHARED_STATE, Cause.SYNC_REPLICA_DESYNC, Cause.CHECKPOINT_CORRUPT_OR_MISSING),
)
def trains_outside_strategy(seen: EvidenceSet) -> Findings:
    """The workers of a multi-worker world train separately: they never exchange a gradient.

    ## What it looks like
    Nothing fails. Every worker prints its own losses, the model learns no faster than with one worker, and
    workers overwrite each other's checkpoints.

    ## Why it happens
    The program creates the strategy, but builds the model outside `strategy.scope()`, or calls the training step
    directly instead of through `strategy.run`. Then each worker applies only its own gradients.

    ## How we know
    The guard reads the collectives of every traced function and sees those that run eagerly. After dozens of steps
    none has carried more than a single number.

    ## What to do
    Build and compile the model inside `strategy.scope()`, and run the step through `strategy.run`.

    ## When this is wrong
    Training that averages weights only once in many steps, by design. We withdraw the finding as soon as we see an
    exchange.
    """
    newest = {e.who: e for e in seen.all(TrainsApart)}
    apart = tuple(e for e in newest.values() if not e.fact.over)
    if not apart:
        return
    fact, ranks = apart[0].fact, tuple(sorted(who for who in newest if who is not None and not newest[who].fact.over))
    yield Found(
        title=f"{say_ranks(ranks)} never exchanged a gradient in {fact.steps} steps, in a world of {fact.world}",
        because=(
            "the program updates the strategy's variables without it: the step does not go through `strategy.run`"
            if fact.scoped
            else "the strategy created no variable: the model was built outside its scope, so each worker has its own"
        ),
        evidence=apart,
        ranks=ranks,
        fixes=(
            Fix(do="run the step through the strategy", code="strategy.run(train_step, args=(next(iterator),))"),
            Fix(
                do="build and compile the model inside the strategy's scope",
                code="with strategy.scope(): model = build(); model.compile(...)",
            ),
        )[:: 1 if fact.scoped else -1],
    )
