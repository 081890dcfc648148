# SPDX-License-Identifier: Apache-2.0
"""COD212: TensorFlow was used before the multi-worker strategy was created."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, short
from keepstep.rules.code.tensorflow._order import at_import, calls_of, in_wrong_order, uses_of_devices
from keepstep.rules.code.tensorflow._tensorflow import MULTI, Distributed, distributed, exclude_each_other

_STRATEGY = re.compile(r"^tensorflow\.distribute\.\w+Strategy(V2)?$")


def _is_one_of_many(tf: Distributed, made: Call) -> bool:
    """Whether the same function made another strategy before, as tutorials do: then it runs in one process."""
    return any(
        _STRATEGY.match(each.fact.name)
        and each.fact.order < made.fact.order
        and not exclude_each_other(each.fact, made.fact)
        for each in tf.known.inside(made.fact.function)
    )


@rule(id="COD212", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def strategy_too_late(seen: EvidenceSet) -> Findings:
    """An operation runs before `MultiWorkerMirroredStrategy` is created.

    ## What it looks like
    ```python
    import tensorflow as tf

    shift = tf.constant([0.5, -0.5])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ```

    ## Why it happens
    The first operation starts TensorFlow's runtime for one process. The strategy must set it up for the cluster,
    which is no longer possible: `Collective ops must be configured at program startup`.

    ## How we know
    An operation, a dataset or a model that needs the runtime comes before the strategy: in the same function, in
    one that is called, or when the file is imported.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    shift = tf.constant([0.5, -0.5])
    ```

    ## When this is wrong
    When the program never runs with TF_CONFIG.
    """
    tf = distributed(seen)
    made = [each for each in tf.known.calls(*MULTI) if not _is_one_of_many(tf, each)]
    early = {}
    for first, then in in_wrong_order(tf, made, uses_of_devices(tf), calls_of(tf, MULTI)):
        early[first.there.origin] = (first.there, then.here)
    for each in made:
        for use in at_import(tf, each, uses_of_devices(tf))[:1]:
            early[use.origin] = (use, each)
    for use, strategy in early.values():
        yield Found(
            title=f"{short(use.fact.name)} runs before the multi-worker strategy is created",
            because="the first use starts TensorFlow for this process alone; the strategy"
            f" (line {strategy.origin.line}) then cannot set up the cluster",
            evidence=(use, strategy),
            fixes=(Fix(do="create the strategy first, at the start of the program"),),
        )
