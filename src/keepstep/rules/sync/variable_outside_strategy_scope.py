# SPDX-License-Identifier: Apache-2.0
"""SYN007: a variable was created outside its strategy's scope."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    OutsideScope,
    lazy_pattern,
    rule,
    shorten,
)


@rule(
    id="SYN007",
    cause=Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE,
    needs=(OutsideScope,),
    explains=(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, Cause.NETWORK_CONNECTION_RESET_PEER_DIED),
)
def variable_outside_strategy_scope(seen: EvidenceSet) -> Findings:
    """A variable, optimizer, metric or model was created or used outside its strategy's scope.

    ## What it looks like
    `Trying to create optimizer slot variable under the scope for tf.distribute.Strategy, which is
    different from the scope used for the original variable`,
    `was not created in the distribution strategy scope`, `Mixing different tf.distribute.Strategy objects`.

    ## Why it happens
    A strategy mirrors only what is created inside `with strategy.scope():`. A model, optimizer or metric created
    before or after it lives on one device only, or belongs to another strategy.

    ## How we know
    TensorFlow compared the scopes and refused.

    ## What to do
    Create model, optimizer, metrics and restored checkpoints inside the scope, and compile there.

    ## When this is wrong
    Some libraries create variables lazily at the first call; then that call must be inside the scope.
    """
    found = [e for e in seen.all(OutsideScope) if not seen.survived(e)]
    if not found:
        return
    what = next((e.fact.what for e in found if e.fact.what), None)
    if all(_OF_THE_CONTEXT.search(e.quote) for e in found):
        yield _in_wrong_context(found, what)
        return
    yield Found(
        title=f"{shorten(what, 50) if what else 'a variable'} was created or used outside its strategy's scope",
        because="TensorFlow found a variable that belongs to another strategy, or to none",
        evidence=tuple(found),
        fixes=(
            Fix(
                do="create model, optimizer and metrics inside the scope",
                code="with strategy.scope(): model = build(); model.compile(...)",
            ),
        ),
    )


_OF_THE_CONTEXT = lazy_pattern(
    r"(?i)replica.context|cross-replica|PerReplica object|call_for_each_|outside the replica|apply_gradients\(\)"
)
"""Where the call is, not where the variable was made."""
_INSIDE = lazy_pattern(
    r"(?i)requires being in cross-replica context|must be called in a cross-replica|Must not be called inside"
)


def _in_wrong_context(found: list[Evidence[OutsideScope]], what: str | None) -> Found:
    inside = all(_INSIDE.search(e.quote) for e in found)
    name = shorten(what, 50) if what else "a call"
    return Found(
        title=f"{name} ran {'inside' if inside else 'outside'} `strategy.run`",
        because=(
            "TensorFlow allows it only outside the function that `strategy.run` runs on each replica"
            if inside
            else "TensorFlow allows it only in the function that `strategy.run` runs on each replica"
        ),
        evidence=tuple(found),
        fixes=(
            Fix(do="move that call out of the function that strategy.run runs")
            if inside
            else Fix(do="run the step through the strategy", code="strategy.run(train_step, args=(next(iterator),))"),
        ),
    )
