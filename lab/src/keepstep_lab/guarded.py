# SPDX-License-Identifier: Apache-2.0
"""The scenarios that the guard must diagnose by itself, from inside, without a supervisor and without the logs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from keepstep_lab.run import Run
from keepstep_lab.scenario import Scenario

MISMATCH = ("sync.collective_mismatch", "data.shape_mismatch", "data.dtype_mismatch")
UNEVEN = ("data.sharding_uneven_or_empty",)
STOPPED = ("sync.deadlock_or_hang_waiting_rank",)
LATE = ("slow.straggler", "slow.input_bound")

TELLS: dict[str, tuple[str, ...]] = {
    # shapes, types, variables, operations
    "tf_width_mismatch": MISMATCH,
    "tf_dtype_mismatch": MISMATCH,
    "tf_skipped_evaluation": (*MISMATCH, *STOPPED),
    "torch_model_shape": MISMATCH,
    "torch_metrics_shape": MISMATCH,
    "torch_metrics_dtype_detail": MISMATCH,
    "torch_collective_mismatch": MISMATCH,
    "torch_conditional_barrier": (*MISMATCH, *STOPPED),
    "jax_width_mismatch": MISMATCH,
    "jax_dtype_mismatch": MISMATCH,
    "jax_conditional_sync": (*MISMATCH, *STOPPED),
    # ragged batches, uneven steps
    "tf_last_batch": (*MISMATCH, *UNEVEN, "data.batch_not_divisible"),
    "torch_last_batch": (*MISMATCH, *UNEVEN, "data.batch_not_divisible"),
    "jax_ragged_batches": (*MISMATCH, *UNEVEN),
    "jax_short_batch": (*MISMATCH, *UNEVEN),
    "jax_short_batch_metrics": (*MISMATCH, *UNEVEN),
    "tf_short_shard": UNEVEN,
    "tf_fewer_steps": (*UNEVEN, *STOPPED),
    "torch_skipped_alone": (*UNEVEN, *MISMATCH, *STOPPED),
    "torch_uneven_data": UNEVEN,
    "torch_uneven_four": UNEVEN,
    "torch_empty_shard": UNEVEN,
    "jax_fewer_steps": (*UNEVEN, *STOPPED),
    "jax_short_shard": (*UNEVEN, *STOPPED),
    "torch_ragged_batches": (*UNEVEN, "data.shape_mismatch"),
    "tf_ragged_batches": (*UNEVEN, "data.shape_mismatch"),
    # the same records on all ranks
    "torch_same_shard": UNEVEN,
    "tf_same_shard": UNEVEN,
    "tf_fit_same_data": UNEVEN,
    "jax_same_shard": UNEVEN,
    # training alone
    "tf_never_joins": ("config.trains_alone",),
    "torch_never_joins": ("config.trains_alone",),
    "jax_never_joins": ("config.trains_alone",),
    "tf_trains_alone": ("config.trains_alone",),
    "torch_trains_alone": ("config.trains_alone",),
    "jax_trains_alone": ("config.trains_alone",),
    "jax_local_mesh": ("config.trains_alone",),
    "tf_trains_apart": ("sync.variable_outside_strategy_scope",),
    "jax_half_mesh": ("config.world_size_mismatch",),
    # values that are not finite
    "jax_nan": ("numeric.nan_or_divergence",),
    "tf_nan_batch": ("numeric.nan_or_divergence",),
    # replicas that differ
    "torch_flipped_bit": ("sync.replica_desync",),
    "jax_flipped_bit": ("sync.replica_desync",),
    "tf_flipped_weight": ("sync.replica_desync",),
    "tf_desync_in_replica": ("sync.replica_desync",),
    # stalls
    "tf_stuck_generator": (*STOPPED, "slow.input_bound"),
    "tf_stuck_py_function": (*STOPPED, "slow.input_bound"),
    "tf_lock_deadlock": STOPPED,
    "tf_stopped": STOPPED,
    "tf_gil_held": STOPPED,
    "tf_chief_evaluates": (*STOPPED, *MISMATCH),
    "torch_stuck_loader": (*STOPPED, "slow.input_bound"),
    "torch_stuck_input": (*STOPPED, "slow.input_bound"),
    "torch_lock_deadlock": STOPPED,
    "torch_lock_deadlock_torchrun": STOPPED,
    "torch_stopped": STOPPED,
    "torch_asleep_then_ended": STOPPED,
    "torch_stopped_four": STOPPED,
    "torch_gil_held": STOPPED,
    "jax_stuck_input": (*STOPPED, "slow.input_bound"),
    "jax_stuck_storage": (*STOPPED, "slow.input_bound"),
    "jax_lock_deadlock": STOPPED,
    "jax_stopped": STOPPED,
    "jax_gil_held": STOPPED,
    # stragglers
    "tf_slow_input": LATE,
    "tf_starved_cpu": (*LATE, "resource.contention"),
    "torch_slow_input": LATE,
    "torch_starved_cpu": (*LATE, "resource.contention"),
    "jax_slow_input": LATE,
    "jax_starved_cpu": (*LATE, "resource.contention"),
    # ranks that do not meet
    "torch_same_rank": ("config.cluster_spec",),
    "jax_same_process_id": ("config.cluster_spec",),
    "torch_waits_for_rank1": ("config.world_size_mismatch",),
    "jax_waits_for_larger_world": ("config.world_size_mismatch",),
    # ranks that leave, or are late
    "torch_leaves_early": (*UNEVEN, *MISMATCH, *STOPPED),
    "jax_leaves_early": (*UNEVEN, *MISMATCH, *STOPPED),
    "tf_fit_leaves_early": (*UNEVEN, *MISMATCH, *STOPPED),
    "tf_sleeping_worker": STOPPED,
    "torch_two_places": (*MISMATCH, *STOPPED),
    # recompilation
    "tf_retracing": ("slow.recompilation",),
    "torch_recompiling": ("slow.recompilation",),
    "jax_recompilation": ("slow.recompilation",),
}
"""What it may say of each; besides these all healthy ones, of which it may say nothing."""

SPEAKS = (b'"fact": "ContractBroken"', b'"fact": "RankStopped"', b'"fact": "BatchOdd"', b'"fact": "RanksArriving"')
PATIENCE_S = 40.0
"""How long a hang may go on without a word from the guard before it is judged anyway."""
QUIET_S = 25.0
"""And how long it must stay silent on a pause that is no hang: these take 40 s at most."""


def guarded(scenario: Scenario) -> Scenario | None:
    """The scenario as the guard is judged on it; None where it is not its business."""
    if scenario.healthy:
        return scenario
    accepted = TELLS.get(scenario.name)
    if accepted is None:
        return None
    ranks = scenario.inside_ranks or scenario.root_ranks
    return replace(scenario, cause=accepted[0], also_accept=accepted[1:], root_ranks=ranks, later=None)


def guard_folder(run: Run) -> Path:
    return run.folder / "guard"


def has_spoken(run: Run) -> bool:
    """Whether the guard has reported the hang, or has had its time."""
    for path in guard_folder(run).glob("*.jsonl"):
        data = path.read_bytes()
        if any(word in data for word in SPEAKS):
            return True
    strikes = run.strikes()
    return bool(strikes) and time.time() - strikes[-1][0] > (QUIET_S if run.scenario.healthy else PATIENCE_S)
