# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Nobody crashed: one rank was busy or done, and only the others' time-outs say that something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.explained import findings

LATE = ("sync.deadlock_or_hang_waiting_rank",)
SAVING = ("checkpoint.slow_io_timeout", "sync.deadlock_or_hang_waiting_rank")
SLOW_INPUT = (*LATE, "slow.straggler", "slow.input_bound")
EARLY = ("sync.collective_mismatch", "data.sharding_uneven_or_empty")

STORE = """\
2026-11-16 10:00:00 rank 0 of 2: init_process_group(backend="nccl", init_method="tcp://10.0.0.1:29500")
2026-11-16 10:05:01 Traceback (most recent call last):
  File "/job/train.py", line 31, in <module>
    dist.init_process_group("nccl")
torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients joined.
"""
JAX = """\
2026-11-16 10:00:00 INFO connecting to JAX distributed service on 10.0.0.1:1234
2026-11-16 10:05:00 Traceback (most recent call last):
  File "/job/train.py", line 12, in <module>
    jax.distributed.initialize()
jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0. This usually happens because a task triggered the barrier too early or too slowly. Please look at the task logs (both timed out and first task) to debug further. # of tasks that reached the barrier: 1/2. The first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names: /job:jax_worker/replica:0/task:1
"""
KEY = """\
2026-11-16 10:00:00 rank 0 of 2 starts
2026-11-16 10:02:00 Traceback (most recent call last):
  File "/job/train.py", line 44, in <module>
    mesh = jax.make_mesh((2,), ("data",))
jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: GetKeyValue() timed out with key: cuda:global_topology/cuda and duration: 2m
"""
WATCHDOG = """\
2026-11-16 10:00:0{0} rank {0} step 100/1000 loss 2.31
2026-11-16 10:00:1{0} rank {0} step 110/1000 loss 2.30
[rank{0}]:[E1116 10:10:2{0}.100000000 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=111, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.
"""
GLOO = """\
2026-11-16 10:00:01 rank 0 step 100/1000 loss 2.31
2026-11-16 10:00:11 rank 0 step 110/1000 loss 2.30
2026-11-16 10:00:51 Traceback (most recent call last):
  File "/job/train.py", line 88, in <module>
    loss.backward()
RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 30000ms for recv operation to complete
"""
CLIENT = """\
2026-11-16 10:00:00 rank 1 of 2 starts
2026-11-16 10:05:02 Traceback (most recent call last):
  File "/job/train.py", line 31, in <module>
    dist.init_process_group("nccl")
torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (10.0.0.1, 29500).
"""
SESSION = "".join(
    f"2026-11-16 10:00:{n}0.000000: I tensorflow/core/distributed_runtime/master.cc:267] CreateSession still waiting for response from worker: /job:worker/replica:0/task:1\n"
    for n in range(6)
)
STEPS = "2026-11-16 10:00:01 rank {0} step 100/1000 loss 2.31\n2026-11-16 10:00:11 rank {0} step 110/1000 loss 2.30\n"
INSTALLING = """\
2026-11-16 10:00:00 + pip install -r requirements.txt
2026-11-16 10:00:03 Collecting flash-attn==2.5.8
2026-11-16 10:00:41 Building wheels for collected packages: flash-attn
2026-11-16 10:00:41   Building wheel for flash-attn (setup.py): still running...
2026-11-16 10:04:41   Building wheel for flash-attn (setup.py): still running...
"""
DOWNLOADING = """\
2026-11-16 10:00:00 rank 1 of 2 starts
2026-11-16 10:00:02 Downloading model weights from s3://models/llama
2026-11-16 10:04:58 downloaded 11.2 of 130.4 GB
"""
PREPARING = """\
2026-11-16 10:00:00 rank 1 of 2 starts
2026-11-16 10:00:02 Running tokenizer on dataset:  12%|█▏        | 120000/1000000 [00:30<03:40, 4000.0 examples/s]
2026-11-16 10:04:52 Running tokenizer on dataset:  92%|█████████▏| 920000/1000000 [04:50<00:20, 4000.0 examples/s]
"""
HASHING = """\
hashed 1440000 of 60000000 documents
hashed 3100000 of 60000000 documents
"""
COMPILING = """\
2026-11-16 10:00:00 rank 1 of 2 starts
2026-11-16 10:00:12 rank 1: compiling train_step ...
2026-11-16 10:03:02 rank 1: still compiling train_step (170 s)
"""
BUILDING = """\
2026-11-16 10:00:01 rank 2 step 100/1000 loss 2.31
Using /root/.cache/torch_extensions/py310_cu121 as PyTorch extensions root...
Building extension module fused_adam...
[1/3] /usr/local/cuda/bin/nvcc -DTORCH_EXTENSION_NAME=fused_adam -c multi_tensor_adam.cu -o multi_tensor_adam.cuda.o
"""


@pytest.mark.parametrize(
    ("logs", "rank", "causes"),
    [
        ({"rank0": STORE, "rank1": INSTALLING}, 1, LATE),
        ({"rank0": STORE, "rank1": DOWNLOADING}, 1, LATE),
        ({"rank0": STORE, "rank1": PREPARING}, 1, LATE),
        ({"rank0": STORE, "rank1": HASHING}, 1, LATE),
        ({"rank0": JAX, "rank1": HASHING}, 1, LATE),
        ({"rank0": JAX, "rank1": INSTALLING}, 1, LATE),
        ({"rank0": JAX, "rank1": PREPARING}, 1, LATE),
        ({"rank0": KEY, "rank1": COMPILING}, 1, LATE),
        ({"rank0": KEY, "rank1": DOWNLOADING}, 1, LATE),
        ({"rank0": INSTALLING, "rank1": CLIENT}, 0, LATE),
        ({"worker-0": SESSION, "worker-1": INSTALLING}, 1, LATE),
        ({"rank0": WATCHDOG.format(0), "rank1": WATCHDOG.format(1), "rank2": BUILDING}, 2, LATE),
        (
            {
                "rank0": STEPS.format(0) + "2026-11-16 10:00:15 rank 0: saving checkpoint to /nfs/ckpt/step110.pt\n",
                "rank1": WATCHDOG.format(1),
                "rank2": WATCHDOG.format(2),
            },
            0,
            SAVING,
        ),
        (
            {
                "rank0": WATCHDOG.format(0),
                "rank1": STEPS.format(1)
                + "2026-11-16 10:00:13 rank 1: reading shard 17 of 64 from /nfs/data\n"
                "2026-11-16 10:09:13 rank 1: still reading shard 17 of 64 (540 s)\n",
                "rank2": WATCHDOG.format(2),
            },
            1,
            SLOW_INPUT,
        ),
        ({"rank0": GLOO, "rank1": STEPS.format(1) + "2026-11-16 10:00:12 rank 1: evaluating on 5000 batches\n"}, 1, LATE),
        ({"rank0": GLOO, "rank1": STEPS.format(1) + "2026-11-16 10:00:12 Training finished, total 110 steps\n"}, 1, EARLY),
        ({"rank0": GLOO, "rank1": STEPS.format(1) + "2026-11-16 10:00:12 done, exiting with status 0\n"}, 1, EARLY),
        ({"rank0": GLOO, "rank1": STEPS.format(1) + "target reached at step 110, leaving\n"}, 1, EARLY),
        ({"rank0": GLOO, "rank1": STEPS.format(1) + "nothing left to do here\n"}, 1, EARLY),
        (
            {
                "rank0": GLOO,
                "rank1": STEPS.format(1),
                "launch": "2026-11-16 09:59:00 2 ranks started\n2026-11-16 10:00:13 rank 1 (pid 81) exited with code 0\n",
            },
            1,
            EARLY,
        ),
    ],
)  # fmt: skip
def test_the_rank_that_was_waited_for_is_named(
    tmp_path: Path, logs: dict[str, str], rank: int, causes: tuple[str, ...]
) -> None:
    found = findings(tmp_path, **logs)
    assert (found[0].cause.value in causes, found[0].ranks) == (True, (rank,)), found[0]


def test_in_one_log_of_all_ranks(tmp_path: Path) -> None:
    said = "".join(WATCHDOG.format(n) for n in (0, 1, 3)).replace("2026", "[rank{0}]: 2026")
    lines = [
        line.replace("[rank{0}]", f"[rank{line.split(' rank ')[1][0]}]") if "{0}" in line else line
        for line in said.splitlines()
    ]
    busy = [
        "[rank2]: 2026-11-16 10:00:12 rank 2 step 110/1000 loss 2.30",
        "[rank2]: Building extension module cpu_adam...",
    ]
    found = findings(tmp_path, run="\n".join([*lines[:2], *busy, *lines[2:]]) + "\n")
    assert (found[0].cause.value, found[0].ranks) == (LATE[0], (2,)), found[0]


def test_two_late_ranks_are_both_named(tmp_path: Path) -> None:
    busy = {f"rank{n}": DOWNLOADING.replace("rank 1", f"rank {n}") for n in (2, 3)}
    found = findings(tmp_path, rank0=STORE.replace("of 2", "of 4").replace("1/2", "2/4"), rank1=CLIENT, **busy)
    assert (found[0].cause.value, found[0].ranks) == (LATE[0], (2, 3)), found[0]


def test_a_rank_that_was_there_and_could_not_connect_is_a_matter_of_the_network(tmp_path: Path) -> None:
    there = """\
2026-11-16 10:00:00 rank 1 of 2 starts
[W1116 10:01:02.000000000 socket.cpp:697] [c10d] The client socket has failed to connect to [10.0.0.1]:29500 (errno: 110 - Connection timed out).
2026-11-16 10:05:02 Traceback (most recent call last):
  File "/job/train.py", line 31, in <module>
    dist.init_process_group("nccl")
torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (10.0.0.1, 29500).
"""
    found = findings(tmp_path, rank0=STORE, rank1=there)
    assert found[0].cause.value == "network.unreachable_or_firewall", found[0]


def test_a_rank_that_is_busy_is_not_why_another_one_cannot_reach_rank_0(tmp_path: Path) -> None:
    found = findings(
        tmp_path, rank0="rank 0 of 3 starts\n", rank1=CLIENT, rank2=DOWNLOADING.replace("rank 1", "rank 2")
    )
    assert found[0].cause.value == "network.unreachable_or_firewall", found[0]


def test_a_phase_that_is_over_does_not_excuse_a_silent_store(tmp_path: Path) -> None:
    done = (
        INSTALLING
        + "2026-11-16 10:00:59 Successfully installed flash-attn-2.5.8\n2026-11-16 10:01:02 rank 1 of 2 starts\n"
    )
    found = findings(tmp_path, rank0=STORE, rank1=done)
    assert found[0].cause.value == "network.unreachable_or_firewall", found[0]


@pytest.mark.parametrize(
    "last", ["worker 3 of 16 starts", "attempt 1 of 20 to reach the store", "wrote 60 of 60 files"]
)
def test_what_a_rank_counts_is_its_work_only_if_it_is_not_the_run_and_not_over(tmp_path: Path, last: str) -> None:
    found = findings(tmp_path, rank0=STORE, rank1=f"{last}\n")
    assert found[0].cause.value == "network.unreachable_or_firewall", found[0]


@pytest.mark.parametrize("last", ["could not open the shard, exiting", "got SIGTERM, leaving", "lost rank 0, stopping"])
def test_a_rank_that_leaves_because_of_some_trouble_has_not_finished(tmp_path: Path, last: str) -> None:
    found = findings(tmp_path, rank0=GLOO, rank1=STEPS.format(1) + f"{last}\n")
    assert all(each.rule != "SYN208" for each in found), found


TF_TIMED_OUT = """\
worker 0: step 20 loss 2.2108
E0000 00:00:1794889430.278516   13401 base_collective_executor.cc:252] BaseCollectiveExecutor::StartAbort DEADLINE_EXCEEDED: Collective has timed out during execution.
tensorflow.python.framework.errors_impl.DeadlineExceededError: Collective has timed out during execution.
"""
TF_LOST = """\
worker 1: step 20 loss 2.2108
E0000 00:00:{0}.735268   12734 base_collective_executor.cc:252] BaseCollectiveExecutor::StartAbort UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted unexpectedly or this task is experiencing network issues. Check earlier logs from 1) this task, 2) the leader (usually slice 0 task 0), and 3) cluster scheduler to debug further.
Additional GRPC error information from remote target /job:worker/replica:0/task:0 while calling /tensorflow.CoordinationService/Heartbeat:
"""


def test_a_rank_that_was_lost_after_its_time_out_is_not_why_it_waited(tmp_path: Path) -> None:
    found = findings(tmp_path, worker0=TF_TIMED_OUT, worker1=TF_LOST.format(1794889436))
    assert (found[0].cause.value, found[0].ranks) == (LATE[0], (1,)), found[0]


def test_a_rank_that_was_lost_before_others_timed_out_may_be_why(tmp_path: Path) -> None:
    found = findings(tmp_path, worker0=TF_TIMED_OUT, worker1=TF_LOST.format(1794889400))
    assert found[0].cause.value == "network.connection_reset_peer_died", found[0]


def test_the_last_of_two_writers_of_a_log_says_what_its_rank_did(tmp_path: Path) -> None:
    done = "worker 1: 2 replicas, tensorflow 2.21.0\n20/20 - 1s - loss: 2.6803 - 55ms/step\ntarget reached, leaving\n"
    lost = (
        "worker 0: 2 replicas, tensorflow 2.21.0\n20/20 - 1s - loss: 2.6803 - 55ms/step\n"
        "E0000 00:00:1794889484.936094   14601 ring_alg.cc:291] Aborting RingReduce with UNAVAILABLE: recvmsg:Connection reset by peer\n"
        "Additional GRPC error information from remote target /job:worker/replica:0/task:1:\n"
    )
    found = findings(tmp_path, worker0=lost, worker1=done)
    assert (found[0].cause.value in EARLY, found[0].ranks) == (True, (1,)), found[0]


JAX_BOTH = """\
[2026-11-17 04:{0}:00,000] p{1} train INFO: jax process {1} of 2, coordinator 127.0.0.1:31762
[2026-11-17 04:{0}:{2},000] p{1} jax._src.distributed INFO: Connecting to JAX distributed service on 127.0.0.1:31762
F1117 04:{0}:{3}.137414   8845 client.h:80] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died; see the other task logs for more details. absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded

RPC: /xla.coordination.CoordinationService/RegisterTask
"""


def test_a_rank_that_came_when_the_other_had_given_up_failed_too_and_began_it(tmp_path: Path) -> None:
    found = findings(tmp_path, rank0=JAX_BOTH.format(20, 0, "01", 16), rank1=JAX_BOTH.format(20, 1, 31, 46))
    assert (found[0].cause.value, found[0].ranks) == (LATE[0], (1,)), found[0]


def test_a_rank_whose_clock_is_late_did_not_come_late(tmp_path: Path) -> None:
    found = findings(tmp_path, rank0=JAX_BOTH.format(20, 0, "01", 16), rank1=JAX_BOTH.format(21, 1, "01", 16))
    assert all(each.rule != "SYN210" for each in found), found


def test_a_rank_that_is_done_first_of_two_that_are_slow_is_not_to_blame(tmp_path: Path) -> None:
    done = "rank 0 step 110 loss 2.30\nrank 0: training finished after 110 steps\n"
    lost = "rank 1 step 110 loss 2.30\nRuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1\n"
    found = findings(tmp_path, rank0=done, rank1=lost)
    assert all(each.rule != "SYN208" for each in found), found
