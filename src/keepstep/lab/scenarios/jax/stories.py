# SPDX-License-Identifier: Apache-2.0
"""JAX runs whose messages do not say what began them: who was late, who left, who came again."""

from __future__ import annotations

from keepstep.lab.scenarios.jax.parts import LONG, multi, on_process_1

HANG = "sync.deadlock_or_hang_waiting_rank"
LOST = "network.connection_reset_peer_died"

SCENARIOS = (
    multi(
        "jax_late_start",
        cause=HANG,
        fault="late_start",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=("--timeout", "10"),
        limit=75,
        note="Process 1 prepares its data for longer than process 0 waits; then it finds nobody.",
    ),
    multi(
        "jax_sleeping_process",
        cause=HANG,
        fault="sleep_long",
        args=("--watchdog", "10"),
        limit=75,
        note="Process 1 sleeps at step 30. JAX waits for hours; the watchdog of each process prints its stack.",
        **on_process_1,
    ),
    multi(
        "jax_leaves_early",
        cause="sync.collective_mismatch",
        also_accept=("data.sharding_uneven_or_empty",),
        fault="leaves_early",
        limit=75,
        note="Process 1 has enough at step 30 and exits with 0; process 0 loses it.",
        **on_process_1,
    ),
    multi(
        "jax_restarted_process",
        cause="worker.restarted_or_incarnation_mismatch",
        also_accept=(LOST, "resource.host_oom_killed"),
        fault="restart_rank",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=LONG,
        limit=75,
        note="Process 1 is killed and started again; the coordinator knows its old incarnation, or is gone.",
    ),
    multi(
        "jax_second_life",
        cause="user.code_exception",
        earlier=(LOST, "resource.host_oom_killed", "unknown.not_established"),
        fault="second_life",
        mark="step 20 loss",
        args=LONG,
        limit=120,
        note="Process 1 is killed, the job is started again into the same logs, and there process 1 raises KeyError.",
        **on_process_1,
    ),
    multi(
        "jax_old_process",
        cause="network.port_in_use",
        fault="old_process",
        root_ranks=(0,),
        args=("--timeout", "10", *LONG),
        limit=75,
        note="The job was started again while its old process 0 still holds the port; both lives are in the same logs.",
    ),
    multi(
        "jax_home_segfault",
        cause="user.native_crash",
        also_accept=("framework.bug_segfault",),
        fault="native_segfault",
        launcher="home",
        limit=75,
        note="Process 1 dies of SIGSEGV in silence; only a home-made launcher says so, process 0's collective fails.",
        **on_process_1,
    ),
    multi(
        "jax_home_watchdog",
        cause=HANG,
        fault="sleep_long",
        launcher="home-watchdog",
        strike_ranks=(1,),
        strike_step=30,
        note="Process 1 sleeps; a home-made launcher sees no progress and ends both processes.",
    ),
    multi(
        "jax_two_stacks",
        cause="sync.collective_mismatch",
        also_accept=(HANG,),
        fault="conditional_sync",
        ranks=4,
        args=("--watchdog", "10", *LONG),
        note="Process 1 alone comes to a sync_global_devices; the watchdog of each process prints its stack.",
        **on_process_1,
    ),
    multi(
        "jax_older_package",
        cause="env.version_mismatch_between_nodes",
        fault="older_package",
        ranks=3,
        strike_ranks=(1,),
        root_ranks=(1,),
        strike_step=10,
        note="Process 1's host has an older version of a small package, which works and computes something else.",
    ),
    multi(
        "jax_half_mesh",
        cause="config.world_size_mismatch",
        later="guard",
        fault="half_mesh",
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        args=("--steps", "400"),
        note="The mesh holds every second device; the training ends well on half of the machine.",
    ),
)
