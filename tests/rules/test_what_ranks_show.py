# SPDX-License-Identifier: Apache-2.0
"""What ranks show without a message of their own: how they end, wait, count and introduce themselves."""

from __future__ import annotations

from pathlib import Path

from tests.rules.explained import findings


def first(folder: Path, **logs: str) -> tuple[str, tuple[int, ...]]:
    found = findings(folder, **logs)
    assert found, logs
    return found[0].cause.value, found[0].ranks


def steps(rank: int, last: int) -> str:
    return "".join(f"2026-06-16 08:{n:02}:00 [proc {rank}] step {n} loss=4.45\n" for n in range(last + 1))


def test_a_hang_that_somebody_cancelled_is_a_hang(tmp_path: Path) -> None:
    logs = {f"rank{rank}": steps(rank, 36 if rank == 1 else 37) for rank in range(4)}
    logs["rank0"] += "slurmstepd: error: *** STEP 70412.0 ON n04 CANCELLED AT 2026-06-16T10:31:07 ***\n"
    assert first(tmp_path, **logs) == ("sync.deadlock_or_hang_waiting_rank", (1,))


def test_a_kill_while_a_checkpoint_loads_after_training(tmp_path: Path) -> None:
    log = """100%|##########| 1251/1251 [9:02:11<00:00, 25.9s/it]
Training completed.
Loading best model from /out/checkpoint-1200 (score: 1.31).
[2023-03-30 11:20:32,210] [INFO] [launch.py:318:sigkill_handler] Killing subprocess 55120
[2023-03-30 11:20:35,010] [ERROR] [launch.py:324:sigkill_handler] ['python', '-u'] exits with return code = -9
"""
    assert first(tmp_path, train=log)[0] == "resource.host_oom_killed"


def test_the_rank_whose_loss_is_not_a_number(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        value = "nan" if rank == 2 else "0.2"
        return "".join(f"INFO : {n:05}/00780 : loss (rank-local) = {value} , lr = 4.00e-05\n" for n in range(600, 640))

    assert first(tmp_path, **{f"rank{rank}": log(rank) for rank in range(4)}) == ("numeric.nan_or_divergence", (2,))


def test_processes_that_were_given_a_world_and_count_one(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        asked = f"calling jax.distributed.initialize(num_processes=2, process_id={rank})\n"
        return asked + "mesh ('data',) = (2,) process 0 of 1 per-process batch 128\n" + steps(rank, 9)

    assert first(tmp_path, a=log(0), b=log(1))[0] == "config.trains_alone"


def test_a_worker_without_data_while_the_other_waits(tmp_path: Path) -> None:
    start = "Train for 5 steps\nEpoch 1/3\n"
    end = (
        "2020-01-14 17:22:39.17: W tensorflow/core/common_runtime/base_collective_executor.cc:216] "
        "BaseCollectiveExecutor::StartAbort Out of range: End of sequence\n"
    )
    assert first(tmp_path, worker0=start, worker1=start + end) == ("data.out_of_range_end_of_sequence", (1,))


def test_an_exception_that_only_says_that_training_failed(tmp_path: Path) -> None:
    wait = (
        "[rank{0}]:[E520 15:17:04.1 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
        "before timing out.\n"
    )
    last = """Traceback (most recent call last):
  File "/job/run.py", line 9, in <module>
    main()
RuntimeError: Suffered a failure during distributed training. Please see the training logs for more context.
"""
    log = "[rank 0] Saving model checkpoint to /out/hf\n" + "".join(wait.format(rank) for rank in (1, 2, 3)) + last
    assert first(tmp_path, train=log) in (
        ("sync.deadlock_or_hang_waiting_rank", (0,)),
        ("checkpoint.slow_io_timeout", (0,)),
    )


def test_a_rank_that_left_when_all_were_done_is_no_mismatch(tmp_path: Path) -> None:
    done = "2026-08-13T06:03:04 INFO Saving final checkpoint step-1000\n2026-08-13T06:03:55 INFO Saved in 51.2s\n"
    lost = (
        "F0813 06:03:59.300000 301 client.h:80] Terminating process because the JAX distributed service detected fatal "
        "errors. This most likely indicates that another task died; RPC: Socket closed\n"
    )
    logs = {"rank0": done + "2026-08-13T06:03:59 runtime INFO task 0 exited with code 0\n", "rank1": done + lost}
    assert first(tmp_path, **logs) == ("network.connection_reset_peer_died", (0,))


def test_two_logs_that_claim_the_same_rank(tmp_path: Path) -> None:
    lost = (
        "coordination_service.cc:962] /job:jax_worker/replica:0/task:0 unexpectedly tried to connect with a different "
        "incarnation. It has likely restarted.\n"
        "Terminating process because the JAX distributed service detected fatal errors.\n"
    )
    logs = {
        f"node_{n}_0": f"2026-05-20T16:40:1{n}Z JAX_NUM_PROCESSES=4 JAX_PROCESS_ID=0\n2026-05-20T16:40:2{n}Z {lost}"
        for n in (0, 1)
    }
    assert first(tmp_path, **logs)[0] == "config.cluster_spec"
