# SPDX-License-Identifier: Apache-2.0
"""JAX runs that end well or go on, but are wrong or slow."""

from __future__ import annotations

from keepstep.lab.scenarios.jax.parts import four, multi, on_process_1

SCENARIOS = (
    multi(
        "jax_nan",
        cause="numeric.nan_or_divergence",
        fault="nan_input",
        args=("--debug-nans",),
        strike_ranks=(1,),
        strike_step=30,
        note="The loss is nan to the end and all exit with 0: jax_debug_nans misses global arrays.",
        **four,
    ),
    multi(
        "jax_debug_nans",
        cause="numeric.nan_or_divergence",
        fault="local_nan",
        args=("--debug-nans",),
        limit=90,
        note="jax_debug_nans stops process 1 with FloatingPointError in a computation of its own.",
        **on_process_1,
    ),
    multi(
        "jax_divergence",
        cause="numeric.nan_or_divergence",
        fault="large_rate",
        args=("--steps", "200"),
        note="The learning rate is far too high: the loss grows to the end.",
    ),
    multi(
        "jax_plateau",
        cause="numeric.plateau",
        later="guard",
        fault="no_rate",
        args=("--steps", "400"),
        note="The learning rate is 0: the loss moves with the batches, and never falls.",
    ),
    multi(
        "jax_recompilation",
        cause="slow.recompilation",
        fault="changing_sizes",
        env={"JAX_LOG_COMPILES": "1", "JAX_EXPLAIN_CACHE_MISSES": "1"},
        args=("--steps", "60"),
        note="Every batch has another size, so the step is compiled again and again.",
    ),
    multi(
        "jax_starved_cpu",
        cause="slow.straggler",
        also_accept=("resource.contention",),
        later="guard",
        fault="starved_cpu",
        needs=("root", "cgroup"),
        strike_ranks=(1,),
        root_ranks=(1,),
        args=("--steps", "600"),
        note="From step 40 on process 1 gets a twentieth of a core.",
    ),
    multi(
        "jax_slow_input",
        cause="slow.input_bound",
        also_accept=("slow.straggler",),
        fault="slow_input",
        strike_ranks=(1,),
        root_ranks=(1,),
        strike_step=5,
        args=("--steps", "50", "--log-every", "5"),
        note="Each batch of process 1 takes half a second to arrive; process 0 waits at each step.",
    ),
    multi(
        "jax_flipped_bit",
        cause="sync.replica_desync",
        later="guard",
        fault="jax_flipped_bit",
        note="One bit of one weight of process 1 flips; its replica differs from then on.",
        **on_process_1,
    ),
)
