# SPDX-License-Identifier: Apache-2.0
"""JAX runs whose data, shapes or checkpoints are at fault."""

from __future__ import annotations

from keepstep.lab.scenarios.jax.parts import four, multi, on_process_1

SCENARIOS = (
    multi(
        "jax_width_mismatch",
        cause="data.shape_mismatch",
        also_accept=("sync.collective_mismatch", "sync.replica_desync"),
        fault="other_width",
        strike_ranks=(2,),
        limit=120,
        note="Process 2 built a wider model: device_put finds other values, gloo another size.",
        **four,
    ),
    multi(
        "jax_ragged_batches",
        cause="data.shape_mismatch",
        also_accept=("data.sharding_uneven_or_empty",),
        later="guard",
        fault="ragged_batches",
        strike_ranks=(1,),
        note="Process 1 feeds 12 rows where process 0 feeds 16; JAX trains on and says nothing.",
    ),
    multi(
        "jax_short_batch",
        cause="data.shape_mismatch",
        also_accept=("data.sharding_uneven_or_empty",),
        later="guard",
        fault="ragged_batches",
        note=(
            "From step 30 on process 1 feeds 12 rows where process 0 feeds 16: it alone compiles anew, and both go on."
        ),
        **on_process_1,
    ),
    multi(
        "jax_short_batch_metrics",
        cause="data.shape_mismatch",
        also_accept=("data.sharding_uneven_or_empty",),
        later="guard",
        fault="ragged_batches",
        args=("--metrics-every", "5"),
        note=(
            "The same amid metrics: one function of JAX is compiled with collectives and without, and its "
            "calls must be told apart."
        ),
        **on_process_1,
    ),
    multi(
        "jax_dtype_mismatch",
        cause="data.dtype_mismatch",
        also_accept=("data.shape_mismatch", "sync.collective_mismatch"),
        later="guard",
        fault="half_precision",
        strike_ranks=(1,),
        note="Process 1 feeds float16 where process 0 feeds float32; JAX trains on and says nothing.",
    ),
    multi(
        "jax_fewer_steps",
        cause="data.sharding_uneven_or_empty",
        also_accept=("sync.deadlock_or_hang_waiting_rank",),
        fault="fewer_steps",
        strike_ranks=(1,),
        root_ranks=(1,),
        limit=90,
        note="Process 1 finishes after 50 steps and waits in the shutdown barrier, process 0 goes on.",
    ),
    multi(
        "jax_empty_shard",
        cause="data.sharding_uneven_or_empty",
        also_accept=("user.code_exception",),
        fault="empty_shard",
        strike_ranks=(1,),
        root_ranks=(1,),
        limit=90,
        note="The data file of process 1 has no rows.",
    ),
    multi(
        "jax_truncated_data",
        cause="data.corrupt_or_truncated",
        fault="truncated_data",
        strike_ranks=(2,),
        root_ranks=(2,),
        limit=90,
        note="The data file of process 2 lost its second half.",
        **four,
    ),
    multi(
        "jax_flipped_data",
        cause="data.corrupt_or_truncated",
        fault="flipped_data",
        strike_ranks=(1,),
        root_ranks=(1,),
        limit=90,
        note="One bit of the data file of process 1 flipped: its CRC does not fit.",
    ),
    multi(
        "jax_missing_data",
        cause="data.corrupt_or_truncated",
        also_accept=("user.code_exception",),
        fault="missing_data",
        strike_ranks=(1,),
        root_ranks=(1,),
        limit=90,
        note="The data file of process 1 is not there.",
    ),
    multi(
        "jax_batch_not_divisible",
        cause="data.batch_not_divisible",
        also_accept=("data.shape_mismatch",),
        args=("--batch", "15"),
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        note="15 rows per process do not divide over its 2 devices.",
    ),
    multi(
        "jax_truncated_npz",
        cause="checkpoint.corrupt_or_missing",
        fault="truncated_npz",
        quick=True,
        limit=90,
        note="The .npz checkpoint is cut in half; both processes fail to read it.",
    ),
    multi(
        "jax_other_npz",
        cause="checkpoint.mismatch_keys_shapes",
        fault="other_npz",
        limit=90,
        note="The checkpoint has other shapes than the model.",
    ),
)
