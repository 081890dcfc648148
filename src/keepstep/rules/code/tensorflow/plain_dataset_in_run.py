# SPDX-License-Identifier: Apache-2.0
"""COD230: every replica gets the same batch."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._loss import trained
from keepstep.rules.code.tensorflow._tensorflow import DISTRIBUTED, MULTI, TPU, Distributed, distributed

_SEVERAL = ("tensorflow.distribute.MirroredStrategy", *MULTI, *TPU)
_APART = re.compile("replica_id|input_pipeline_id|get_replica_context|values_from_function")


def _element(tf: Distributed, run: Call) -> str:
    """The chain of calls that made the dataset whose element is given to the replicas; empty: something else."""
    given = run.fact.argument("args", 1)
    for made in (given.made, *given.parts) if given is not None else ():
        source, bracket, _ = made.partition("[")
        pieces = tf.chain(source) if bracket else []
        if pieces[:2] == ["tensorflow", "data"] and not set(pieces) & set(DISTRIBUTED):
            return ".".join(pieces)
    return ""


def _is_dealt_out(tf: Distributed, run: Call, chain: str) -> bool:
    """Whether replicas or workers may get parts of their own after all."""
    if "shard" in chain.split(".") or tf.known.methods_among(run, "shard"):
        return True
    loops = [block.text for block in run.fact.within if block.kind == "for"]
    spread = [each.fact.assigned for each in tf.known.methods_in_file(run, *DISTRIBUTED) if each.fact.assigned]
    if any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) for name in spread for text in loops):
        return True
    given = run.fact.argument("fn", 0)
    inside = tf.known.inside(given.target) if given is not None and given.target else ()
    return any(_APART.search(each.fact.text) for each in inside)


@rule(id="COD230", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def plain_dataset_in_run(seen: EvidenceSet) -> Findings:
    """`strategy.run` trains on a batch of a plain dataset, so every replica gets the same one.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    for batch in dataset:
        strategy.run(step, args=(batch,))
    ```

    ## Why it happens
    `strategy.run` hands each replica its own part only of what is distributed. A tensor goes to all of them as it
    is: N replicas do the work of one, N times, and add up N equal gradients.

    ## How we know
    What is given in `args` comes from a loop over a `tf.data` dataset that did not go through
    `experimental_distribute_dataset` or `distribute_datasets_from_function`, and the step applies gradients.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    dataset = tf.data.Dataset.range(64).batch(8)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(x), global_batch_size=8)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(step, args=(batch,))
    ```

    ## When this is wrong
    When each process has one replica and a dataset of its own.
    """
    tf = distributed(seen)
    training = {each.function for each in trained(tf)}
    for each in tf.runs:
        given = each.fact.argument("fn", 0)
        if each.fact.on is None or each.fact.on.made not in _SEVERAL or given is None or not given.target:
            continue
        chain = _element(tf, each)
        if not chain or _is_dealt_out(tf, each, chain) or not tf.reached([given.target]) & training:
            continue
        args = each.fact.argument("args", 1)
        yield Found(
            title="every replica gets the same batch",
            because=f"`{args.text if args is not None else ''}` comes from a plain dataset,"
            f" {chain.removeprefix('tensorflow.')}: strategy.run hands it to all replicas as it is",
            evidence=(each,),
            fixes=(
                Fix(do="loop over strategy.experimental_distribute_dataset(dataset)", safety=Safety.CHANGES_RESULTS),
            ),
        )
