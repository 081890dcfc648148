# SPDX-License-Identifier: Apache-2.0
"""PyTorch runs whose messages do not say what began them: the story is in who was late, who left, who came again."""

from __future__ import annotations

from keepstep.lab.scenarios.torch.parts import ddp, on_rank_1

HUNG = "sync.deadlock_or_hang_waiting_rank"
LOST = "network.connection_reset_peer_died"
LONG = ("--epochs", "2000")

SCENARIOS = (
    ddp(
        "torch_late_start",
        cause=HUNG,
        fault="late_start",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=("--timeout", "8"),
        limit=24,
        note="Rank 1 still prepares its data when rank 0 gives up the wait for it.",
    ),
    ddp(
        "torch_leaves_early",
        cause="sync.collective_mismatch",
        also_accept=("data.sharding_uneven_or_empty",),
        fault="leaves_early",
        ranks=3,
        note="Rank 1 has enough at step 25 and exits with 0; the others lose it.",
        **on_rank_1,
    ),
    ddp(
        "torch_restarted_rank",
        cause=LOST,
        also_accept=("worker.restarted_or_incarnation_mismatch", "resource.host_oom_killed"),
        fault="restart_rank",
        strike_ranks=(1,),
        root_ranks=(1,),
        args=(*LONG, "--timeout", "8"),
        limit=40,
        note="Rank 1 is killed and started again; rank 0 has lost the old one and is gone when the new one comes.",
    ),
    ddp(
        "torch_second_life",
        cause="user.code_exception",
        earlier=(LOST, "resource.host_oom_killed", "unknown.not_established"),
        fault="second_life",
        strike_ranks=(1,),
        root_ranks=(1,),
        strike_step=60,
        args=LONG,
        note="Rank 1 is killed, the job is started again into the same logs, and there rank 1 raises KeyError.",
    ),
    ddp(
        "torch_old_process",
        cause="network.port_in_use",
        fault="old_process",
        root_ranks=(0,),
        args=(*LONG, "--timeout", "8"),
        limit=45,
        note="The job was started again while its old rank 0 still holds the port; both lives are in the same logs.",
    ),
    ddp(
        "torch_home_segfault",
        cause="user.native_crash",
        also_accept=("framework.bug_segfault",),
        fault="native_segfault",
        launcher="home",
        note="Rank 1 dies of SIGSEGV in silence; only a home-made launcher says so, rank 0 loses the connection.",
        **on_rank_1,
    ),
    ddp(
        "torch_home_watchdog",
        cause=HUNG,
        fault="sleep_long",
        launcher="home-watchdog",
        args=("--timeout", "120"),
        strike_ranks=(1,),
        strike_step=25,
        note="Rank 1 sleeps; a home-made launcher sees no progress and ends both ranks.",
    ),
    ddp(
        "torch_two_places",
        cause="sync.collective_mismatch",
        fault="conditional_barrier",
        ranks=3,
        args=("--timeout", "8"),
        strike_ranks=(2,),
        strike_step=25,
        root_ranks=(2,),
        limit=40,
        note="Rank 2 alone enters a barrier; all ranks time out with the same message, at two places.",
    ),
    ddp(
        "torch_two_stacks",
        cause="sync.collective_mismatch",
        fault="conditional_barrier",
        ranks=3,
        args=("--timeout", "120", "--watchdog", "8"),
        strike_ranks=(2,),
        strike_step=25,
        root_ranks=(2,),
        limit=40,
        note="The same; each rank's own watchdog prints its stack and ends it.",
    ),
    ddp(
        "torch_older_package",
        cause="env.version_mismatch_between_nodes",
        fault="older_package",
        ranks=3,
        note="Rank 1's host has an older version of a small package, which works and computes something else.",
        **on_rank_1,
    ),
    ddp(
        "torch_no_gpu",
        cause="env.framework_cuda_mismatch",
        fault="no_gpu",
        note="The ranks were given GPUs, and train on the CPU because PyTorch reaches none.",
    ),
)
