# SPDX-License-Identifier: Apache-2.0
"""TensorFlow runs that go on, but are wrong or slow."""

from __future__ import annotations

from keepstep.lab.scenarios.tensorflow.parts import LEGACY, fit, four, mirrored, mwms, on_worker_1

SCENARIOS = (
    mwms(
        "tf_nan_loss",
        cause="numeric.nan_or_divergence",
        fault="huge_values",
        strike_ranks=(1,),
        args=("--check-numerics", "--batch", "128"),
        limit=150,
        note="Rows of worker 1 are huge, all weights overflow; check_numerics stops at the loss.",
        **four,
    ),
    mwms(
        "tf_nan_printed",
        cause="numeric.nan_or_divergence",
        fault="huge_values",
        strike_ranks=(1,),
        note="The same without check_numerics: training goes on with a loss of nan.",
    ),
    mwms(
        "tf_nan_batch",
        cause="numeric.nan_or_divergence",
        fault="nan_data",
        strike_ranks=(1,),
        args=("--steps", "120"),
        note="Some rows of worker 1 are NaN; a step later all weights are. The guard names worker 1.",
    ),
    fit(
        "tf_trains_apart",
        cause="sync.variable_outside_strategy_scope",
        later="guard",
        fault="no_scope_at_all",
        env=LEGACY,
        args=("--epochs", "5"),
        note="Nothing is made in strategy.scope(): each worker trains a model of its own, and nothing fails.",
    ),
    mwms(
        "tf_short_shard_nan",
        cause="numeric.nan_or_divergence",
        also_accept=("data.sharding_uneven_or_empty",),
        fault="short_shard",
        args=("--epochs", "3", "--steps", "1000"),
        note="Worker 1 has fewer rows: the strategy gives it empty batches then, whose mean loss is not a number.",
    ),
    mirrored(
        "tf_divergence",
        cause="numeric.nan_or_divergence",
        fault="large_rate",
        note="The learning rate is far too large: the loss grows from epoch to epoch.",
    ),
    mirrored(
        "tf_plateau",
        cause="numeric.plateau",
        fault="no_rate",
        note="The learning rate is zero: the loss stays where it was.",
    ),
    mwms(
        "tf_flipped_weight",
        cause="sync.replica_desync",
        later="guard",
        fault="flipped_weight",
        note="One bit of one weight of worker 1 flips: the replicas differ from then on, nothing says so.",
        **on_worker_1,
    ),
    mwms(
        "tf_desync_in_replica",
        cause="sync.replica_desync",
        later="guard",
        fault="desync_in_replica",
        note="The replica function assigns its own replica's values to a weight; TensorFlow lets it.",
    ),
    mwms(
        "tf_slow_input",
        cause="slow.straggler",
        also_accept=("slow.input_bound",),
        later="guard",
        fault="slow_input",
        args=("--steps", "60"),
        note="Each batch of worker 1 takes half a second to arrive; worker 0 waits for it at each step.",
        **on_worker_1,
    ),
    mwms(
        "tf_starved_cpu",
        cause="slow.straggler",
        also_accept=("resource.contention",),
        later="guard",
        fault="starved_cpu",
        needs=("root", "cgroup"),
        strike_ranks=(1,),
        root_ranks=(1,),
        args=("--steps", "200"),
        note="From step 40 on worker 1 gets a twentieth of a core.",
    ),
)
