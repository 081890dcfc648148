# SPDX-License-Identifier: Apache-2.0
"""COD223: parameter servers without a coordinator."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code.tensorflow._tensorflow import SERVERS, distributed


@rule(
    id="COD223",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def no_coordinator(seen: EvidenceSet) -> Findings:
    """A step under `ParameterServerStrategy` is called directly, and no `ClusterCoordinator` sends it to the workers.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.ParameterServerStrategy(resolver)

    def compute():
        return tf.reduce_sum(model(batch))

    @tf.function
    def step():
        return strategy.run(compute)

    for number in range(100):
        step()
    ```

    ## Why it happens
    With parameter servers the chief hands out steps. Only a `ClusterCoordinator` sends them to workers; without one
    the chief computes every step itself, and the workers stay idle.

    ## How we know
    The program creates the strategy and calls a step with `strategy.run` in it, and creates no coordinator.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def compute():
        return tf.reduce_sum(model(batch))

    @tf.function
    def step():
        return strategy.run(compute)

    for number in range(100):
        coordinator.schedule(step)
    ```

    ## When this is wrong
    When the coordinator is created by code that was not read.
    """
    tf = distributed(seen)
    for run in tf.runs:
        if run.fact.on is None or not tf.surely(run, SERVERS) or tf.known.methods_among(run, "ClusterCoordinator"):
            continue
        if run.fact.on.made and run.fact.on.made not in SERVERS:
            continue
        for each in tf.known.callers(run.fact.function) or [run]:
            yield Found(
                title="the step is not sent to the workers: there is no ClusterCoordinator",
                because="without a coordinator the chief computes every step itself, and the workers stay idle",
                evidence=(each, run) if each is not run else (run,),
                fixes=(Fix(do="create a ClusterCoordinator(strategy), schedule() the step with it, and join()"),),
            )
