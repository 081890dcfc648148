# SPDX-License-Identifier: Apache-2.0
"""PyTorch runs that need more than the machine has."""

from __future__ import annotations

from keepstep.lab.scenarios.torch.parts import ddp, four_clocks, fsdp, on_rank_1, on_rank_2

SCENARIOS = (
    ddp(
        "torch_oom_killed",
        cause="resource.host_oom_killed",
        fault="memory_limit",
        launcher="torchrun",
        needs=("cgroup",),
        note="The kernel kills rank 1 at its memory cgroup's limit; the kernel log is in dmesg.log.",
        **on_rank_1,
    ),
    fsdp(
        "torch_oom_killed_four",
        cause="resource.host_oom_killed",
        fault="memory_limit",
        launcher="shell",
        needs=("cgroup",),
        note="The kernel kills rank 2 of an FSDP run of four; its shell prints 'Killed'.",
        **four_clocks,
        **on_rank_2,
    ),
    ddp(
        "torch_small_shm",
        cause="resource.shm",
        fault="small_shm",
        args=("--workers", "2"),
        needs=("root",),
        note="/dev/shm of 64 kB cannot hold the semaphores of the loader's queues: 'No space left on device'.",
    ),
    ddp(
        "torch_full_shm",
        cause="resource.shm",
        fault="full_shm",
        args=("--workers", "2", "--epochs", "400"),
        mark="step 20",
        needs=("root",),
        note="Another program fills /dev/shm while the loader's workers pass their batches through it.",
    ),
    ddp(
        "torch_full_disk",
        cause="resource.disk_full",
        also_accept=("checkpoint.corrupt_or_missing",),
        fault="full_disk",
        root_ranks=(0,),
        needs=("root",),
        note="The disk is full when rank 0 saves; torch only says 'iostream error', 'unexpected pos'.",
    ),
    fsdp(
        "torch_full_disk_dcp",
        cause="resource.disk_full",
        also_accept=("checkpoint.corrupt_or_missing",),
        fault="full_disk",
        checkpoint="sharded",
        needs=("root",),
        note="The disk is full when the ranks save a sharded checkpoint.",
    ),
    ddp(
        "torch_open_files",
        cause="resource.fd_or_process_limit",
        fault="open_files",
        limits={"RLIMIT_NOFILE": 256},
        note="Rank 1 leaks file handles: 'Too many open files'.",
        **on_rank_1,
    ),
    ddp(
        "torch_process_limit",
        cause="resource.fd_or_process_limit",
        fault="process_limit",
        needs=("cgroup",),
        note="Rank 2 of four may start no more threads (pids cgroup): 'can't start new thread'.",
        **four_clocks,
        **on_rank_2,
    ),
    ddp(
        "torch_memory_leak",
        cause="resource.memory_leak",
        fault="memory_leak",
        args=("--log-memory", "--epochs", "5"),
        note="Rank 1 keeps something of every batch; its own readings of its memory only rise.",
        **on_rank_1,
    ),
    ddp(
        "torch_silent_leak",
        cause="resource.memory_leak",
        later="run",
        fault="memory_leak",
        args=("--epochs", "24"),
        note="The same, and nothing prints how much memory is used.",
        **on_rank_1,
    ),
)
