# SPDX-License-Identifier: Apache-2.0
"""COD203: the training step does not go through strategy.run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keepstep.model.facts import CodeBlock, CodeCall, CodeFunction
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._tensorflow import DISTRIBUTED, MULTI, TPU, Distributed, distributed, is_scope

_REPLICATED = ("tensorflow.distribute.MirroredStrategy", *MULTI, *TPU)


def _trains(tf: Distributed, function: str) -> bool:
    """Whether it applies gradients itself, and neither runs in replicas nor sends anything there."""
    if function in tf.replica:
        return False
    inside = tf.known.inside(function)
    if any(
        each.fact.method in ("run", "experimental_run_v2", "merge_call", "call_for_each_replica") for each in inside
    ):
        return False
    names = {each.fact.method for each in inside}
    return ("apply_gradients" in names and "gradient" in names) or _minimizes(inside)


def _minimizes(inside: Sequence[Call]) -> bool:
    """Whether a Keras optimizer is given the variables of a model."""
    return any(
        each.fact.method == "minimize" and any("trainable" in argument.value.text for argument in each.fact.arguments)
        for each in inside
    )


def _calls_of_steps(tf: Distributed) -> Iterator[tuple[Call, Evidence[CodeFunction]]]:
    """The calls of functions that train, with these."""
    for name in dict.fromkeys(each.fact.function for each in tf.known.methods("apply_gradients", "minimize")):
        function = tf.known.functions.get(name)
        if function is not None and _trains(tf, name):
            yield from ((each, function) for each in tf.known.callers(name))


def _gets_distributed(tf: Distributed, call: Call, hops: int) -> bool:
    """Whether the arguments, or the loop around it, come from a distributed dataset; also in its callers."""
    givers = [argument.value.made for argument in call.fact.arguments] + [block.made for block in call.fact.within]
    if call.fact.arguments and any(
        name in made and "get_strategy" not in made for made in givers for name in DISTRIBUTED
    ):
        return True
    if any(is_scope(block) for block in call.fact.within) and any(b.kind in ("for", "while") for b in call.fact.within):
        return True
    if hops == 0 or call.fact.function in tf.replica:
        return False
    return any(_gets_distributed(tf, each, hops - 1) for each in tf.known.callers(call.fact.function))


def _steps_in_scope(tf: Distributed) -> Iterator[tuple[Call, CodeBlock]]:
    """Where a loop in the scope of a strategy with replicas takes and applies gradients itself; and that scope."""
    for apply in tf.known.methods("apply_gradients"):
        inside = [each for each in apply.fact.within if each.kind in ("for", "while", "with")]
        scope = next((each for each in inside if is_scope(each)), None)
        if scope is None or scope.made.removesuffix(".scope") not in _REPLICATED:
            continue
        loops = [each for each in inside[inside.index(scope) :] if each.kind != "with"]
        steps = [each for each in tf.known.inside(apply.fact.function) if loops and loops[-1] in each.fact.within]
        if {"gradient"} <= {each.fact.method for each in steps} and not any(each in tf.runs for each in steps):
            yield apply, scope


@rule(id="COD203", cause=Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def step_not_run(seen: EvidenceSet) -> Findings:
    """The training step is called directly with a distributed batch, not through `strategy.run`.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    for batch in strategy.experimental_distribute_dataset(dataset):
        step(batch)
    ```

    ## Why it happens
    A distributed dataset yields one value per replica. Only `strategy.run` hands each replica its own, and only
    inside it the optimizer adds up the gradients of all replicas.

    ## How we know
    The call gets what a distributed dataset yields, or stands in the strategy's scope. The function applies
    gradients, and nothing gives it to `strategy.run`. Or a loop in the scope takes and applies gradients itself.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(step, args=(batch,))
    ```

    ## When this is wrong
    When the function calls `strategy.run` in a way that was not understood.
    """
    tf = distributed(seen)
    for each, function in _calls_of_steps(tf):
        if each.fact.function in tf.replica or not _gets_distributed(tf, each, 3):
            continue
        yield Found(
            title=f"{each.fact.method}() is called directly, not through strategy.run",
            because="it gets one value per replica and applies gradients; without strategy.run no replica runs it, and"
            " TensorFlow refuses or trains on one device",
            evidence=(each, function),
            fixes=(Fix(do=f"call strategy.run({each.fact.method}, args=(...)) and reduce what it returns"),),
        )
    for apply, scope in _steps_in_scope(tf):
        yield Found(
            title="the loop in the strategy's scope trains without strategy.run",
            because=f"`with {scope.text}` (line {scope.line}) only places variables: without strategy.run no replica"
            " runs this step, and TensorFlow refuses or trains on one device",
            evidence=(apply,),
            fixes=(Fix(do="put the step into a function, and call it by strategy.run(step, args=(batch,))"),),
        )
