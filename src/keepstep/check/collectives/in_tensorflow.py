# SPDX-License-Identifier: Apache-2.0
"""One worker of a TensorFlow job that only tries collectives. ``python -m ... PLAN``."""

from __future__ import annotations

import importlib
import os
from typing import Any

from keepstep.check.collectives.child import Difference, Round, differences, plan_given, say, timed, try_all
from keepstep.check.collectives.plan import Trial, given, length, numbers, wanted


def main() -> None:
    plan = plan_given()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    tf: Any = importlib.import_module("tensorflow")
    numpy: Any = importlib.import_module("numpy")
    kinds = tf.distribute.experimental.CommunicationImplementation
    kind = kinds[plan.backend.upper()] if plan.backend else kinds.AUTO
    options = tf.distribute.experimental.CommunicationOptions(implementation=kind)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    world, rank = strategy.num_replicas_in_sync, strategy.cluster_resolver.task_id
    say(backend=plan.backend or "auto", world=world, version=tf.__version__)

    def attempt(trial: Trial) -> Round | None:
        if len(trial.groups) > 1:
            return None  # a strategy has one group
        if trial.operation not in ("all_reduce", "all_gather"):
            raise NotImplementedError("a strategy has no such collective")
        known = numbers(trial, numpy.arange(length(trial, world)))
        dtype = tf.as_dtype(trial.dtype)
        mine = tf.constant(given(trial, known, rank).astype(dtype.as_numpy_dtype))
        want = wanted(trial, known, rank, numpy.concatenate).astype(dtype.as_numpy_dtype)

        def inner() -> Any:
            def replica() -> Any:
                context = tf.distribute.get_replica_context()
                if trial.operation == "all_gather":
                    return context.all_gather(mine, axis=0)
                return context.all_reduce(tf.distribute.ReduceOp.SUM, mine)

            return strategy.run(replica)

        step = tf.function(inner)
        strategy.experimental_local_results(step())

        def once() -> tuple[float, list[Difference]]:
            took, (got, *_) = timed(lambda: [each.numpy() for each in strategy.experimental_local_results(step())])
            return took, differences(got, want, rank, numpy.flatnonzero)

        return once

    try_all(plan, world, attempt)


if __name__ == "__main__":
    main()
