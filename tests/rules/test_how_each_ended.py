# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""How each process ended, in the words of launchers and wrappers that nobody has heard of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.explained import findings

RANK_0_LOST = """\
2026-11-16 10:00:01 rank 0 step 10/500 loss 2.31
2026-11-16 10:00:09 rank 0 step 20/500 loss 2.11
2026-11-16 10:00:17 rank 0 step 30/500 loss 1.98
2026-11-16 10:00:21 RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:43211
"""
QUIET = """\
2026-11-16 10:00:01 rank {0} step 10/500 loss 2.31
2026-11-16 10:00:09 rank {0} step 20/500 loss 2.11
2026-11-16 10:00:17 rank {0} step 30/500 loss 1.98
"""
SEGFAULT = ("framework.bug_segfault",)
KILLED = ("unknown.not_established", "resource.host_oom_killed")
FAILED = ("unknown.not_established", "network.connection_reset_peer_died")
ABORTED = ("framework.bug_segfault", *FAILED)
HUNG = ("sync.deadlock_or_hang_waiting_rank",)


@pytest.mark.parametrize(
    ("line", "rank", "causes"),
    [
        ("launcher: rank 1 pid 6606 exited with signal 11 (SIGSEGV)", 1, SEGFAULT),
        ("[supervisor] trainer-1 crashed: returncode -11", 1, SEGFAULT),
        ("run.py: child 1 (pid 991) exited abnormally: code=139", 1, SEGFAULT),
        ("pid 6606 (rank 1): Segmentation fault (core dumped)", 1, SEGFAULT),
        ('{"event": "worker_exit", "rank": 1, "pid": 6606, "returncode": -11}', 1, SEGFAULT),
        ("[launch] rank=1 host=node2 pid=4242 exit_code=139", 1, SEGFAULT),
        ("2026-11-16 10:00:19 WARNING Rank 1 terminated abnormally, exit status: 139 (SIGSEGV)", 1, SEGFAULT),
        ("monitor | process for rank 1 has exited unexpectedly with signal SIGSEGV", 1, SEGFAULT),
        ("worker 1 died (exit status 137)", 1, KILLED),
        ("process 4412 (rank 1) terminated by SIGKILL", 1, KILLED),
        ("ERROR run_all: worker-1 was killed (signal 9)", 1, KILLED),
        ("local launcher: rank 1 killed by SIGKILL after 19.2 s", 1, KILLED),
        ("start_cluster: subprocess for rank 1 returned -6", 1, ABORTED),
        ("wrapper[77]: task 1 aborted with SIGABRT", 1, ABORTED),
        ("[gang] member rank=1 ended rc=3, stopping the others", 1, FAILED),
        ("rank1: process exited with code 3", 1, FAILED),
    ],
)  # fmt: skip
def test_a_silent_rank_whose_end_a_wrapper_reports_is_the_first(
    tmp_path: Path, line: str, rank: int, causes: tuple[str, ...]
) -> None:
    found = findings(tmp_path, rank0=RANK_0_LOST, rank1=QUIET.format(1), launch=f"starting 2 ranks\n{line}\n")
    assert (found[0].cause.value in causes, found[0].ranks) == (True, (rank,)), found[0]


@pytest.mark.parametrize(
    "line",
    [
        "rank 1 finished, rc=0",
        "[supervisor] trainer-1 exited (returncode 0)",
        "launcher: rank 1 pid 6606 exited with status 0",
        "worker 1 completed, exit code 0",
        "[launch] rank=1 pid=6606 exit_code=0",
    ],
)
def test_a_rank_that_ended_well_is_what_the_others_missed(tmp_path: Path, line: str) -> None:
    found = findings(
        tmp_path,
        rank0=RANK_0_LOST,
        rank1=QUIET.format(1),
        launch=f"2026-11-16 09:59:50 starting 2 ranks\n2026-11-16 10:00:19 {line}\n",
    )
    assert found[0].cause.value in ("sync.collective_mismatch", "data.sharding_uneven_or_empty"), found[0]
    assert found[0].ranks == (1,)


@pytest.mark.parametrize(
    "lines",
    [
        "2026-11-16 10:00:55 no progress for 35 s, cancelling rank 0\n2026-11-16 10:00:55 rank 0 terminated by SIGTERM\n",
        "2026-11-16 10:00:55 watchdog: job stalled (no new log lines for 35 seconds); killing\n"
        "2026-11-16 10:00:56 rank 0 exited with signal 15 (SIGTERM)\n2026-11-16 10:00:56 rank 1 exited with signal 15 (SIGTERM)\n",
        "2026-11-16 10:00:55 [babysit] training has made no progress in the last 30s, sending SIGTERM to all ranks\n"
        "2026-11-16 10:00:56 [babysit] rank 0: exit code -15\n",
        "2026-11-16 10:00:55 harness: timeout: no output for 30s, terminating\n2026-11-16 10:00:56 harness: worker 0 killed by signal 9\n",
    ],
)
def test_a_watchdog_that_gave_up_ended_a_hang(tmp_path: Path, lines: str) -> None:
    found = findings(tmp_path, rank0=QUIET.format(0), rank1=QUIET.format(1), launch=lines)
    assert found[0].cause.value in HUNG, found[0]


def test_a_handler_that_reports_the_signal_of_such_a_watchdog_is_no_preemption(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        rank0=QUIET.format(0) + "2026-11-16 10:00:55 Received SIGTERM, shutting down\n",
        rank1=QUIET.format(1),
        launch="2026-11-16 10:00:54 no progress for 35 s, cancelling rank 0\n",
    )
    assert found[0].cause.value in HUNG, found[0]


def test_the_watchdog_names_the_rank_it_missed(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        launch="".join(f"[rank{n}]: step {s}/500 loss 2.0\n" for s in (10, 20, 30) for n in range(4))
        + "supervisor: no heartbeat from rank 3 for 120 s, terminating the job\nsupervisor: rank 0 exited with signal 15\n",
    )
    assert (found[0].cause.value, found[0].ranks) == (HUNG[0], (3,)), found[0]


def test_a_rank_that_died_before_the_watchdog_gave_up_is_the_cause(tmp_path: Path) -> None:
    log = "".join(f"[rank{n}]: step {s}/500 loss 2.0\n" for s in (10, 20, 30) for n in range(2))
    found = findings(
        tmp_path,
        launch=f"{log}launcher: rank 1 exited with signal 9\nlauncher: no progress for 120 s, killing the rest\n"
        "launcher: rank 0 exited with signal 15\n",
    )
    assert (found[0].cause.value in KILLED, found[0].ranks) == (True, (1,)), found[0]


def test_a_watchdog_that_only_complains_is_nothing(tmp_path: Path) -> None:
    steps = "".join(f"step {n}/500 loss 2.0\n" for n in range(10, 60, 10))
    assert not findings(tmp_path, rank0=f"{steps}watchdog: no progress for 35 s, restarting the loader\n{steps}")


def test_what_ranks_lose_while_all_of_them_end_well_is_nothing(tmp_path: Path) -> None:
    ends = "rank 0 finished, rc=0\nrank 1 finished, rc=0\n"
    assert not findings(tmp_path, rank0=RANK_0_LOST, rank1=QUIET.format(1), launch=ends)


@pytest.mark.parametrize(
    "text",
    [
        "exit code review of worker 3 is done",
        "worker 3 exited the barrier",
        "process 12 terminated the old session",
        "Task 5 ended in 12 s",
        "rank 3 finished loading shard 11",
        "rank 1 finished epoch 0 with accuracy 11",
        "worker 2 completed 137 samples",
        "Process 3 returned 12 results",
        "if rank 1 exits with code 137, raise the memory limit",
        "rank 0 | exit_code=0 expected for all workers",
        "early stopping: no progress for 35 epochs",
        "no improvement for 10 epochs, stopping",
    ],
)
def test_prose_is_no_end(tmp_path: Path, text: str) -> None:
    steps = "".join(f"step {n}/500 loss 2.0\n" for n in range(10, 60, 10))
    assert not findings(tmp_path, rank0=f"{steps}{text}\n")
