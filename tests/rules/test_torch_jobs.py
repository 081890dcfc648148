# SPDX-License-Identifier: Apache-2.0
"""Logs of PyTorch jobs whose last message is not the cause."""

from __future__ import annotations

from keepstep.analyze.why import explain_paths


def told(folder, text):
    (folder / "log.txt").write_text(text)
    return [(f.cause.value, f.ranks) for f in explain_paths([folder / "log.txt"]).report.findings]


def call(rank: int, count: int, comm: str = "", number: str = "0", op: str = "Broadcast", size: int = 4) -> str:
    return (
        f"n1:{100 + rank}:{100 + rank} [{rank}] NCCL INFO {op}: opCount {number} sendbuff 0x7f recvbuff "
        f"0x7f count {count} datatype 4 op 0 "
        f"root 0 comm {comm or hex(4096 + rank)} [nranks={size}] stream 0x55\n"
    )


def differ(folder, text):
    return "sync.collective_mismatch" in [cause for cause, _ in told(folder, text)]


def test_calls_that_differ_between_ranks(tmp_path):
    text = call(0, 25503912) + "".join(call(r, 53) for r in (1, 2, 3))
    assert told(tmp_path, text) == [("sync.collective_mismatch", (0,))]


def test_equal_calls_are_not_a_mismatch(tmp_path):
    assert not differ(tmp_path, "".join(call(r, 53) + call(r, 64, number="1") for r in range(4)))


def test_calls_of_several_communicators_are_not_compared(tmp_path):
    assert not differ(tmp_path, "".join(call(r, 53 + r, comm=c) for r in range(4) for c in ("0xa1", "0xa2")))


def test_more_ranks_than_the_communicator_holds_are_several_groups(tmp_path):
    assert not differ(tmp_path, "".join(call(r, 53 + r, size=2) for r in range(4)))


def test_calls_of_one_launch_share_their_number(tmp_path):
    text = "".join(call(r, n) for r in range(4) for n in ((8, 16) if r else (16, 8)))
    assert not differ(tmp_path, text)


def test_a_file_of_tempfile_that_a_rank_does_not_find(tmp_path):
    text = "rank 0: OK\n[rank1]: FileNotFoundError: [Errno 2] No such file or directory: '/tmp/tmpmk6im38j'\n"
    assert told(tmp_path, text)[0] == ("sync.race_on_shared_state", (1,))


def test_an_error_within_logging_is_not_the_programs(tmp_path):
    text = (
        "--- Logging error ---\nTraceback (most recent call last):\n"
        '  File "/usr/lib/python3.10/logging/__init__.py", line 1100, in emit\n    msg = self.format(record)\n'
        "TypeError: not all arguments converted during string formatting\n"
        "Message: 'loaded'\nArguments: ('x',)\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    assert [cause for cause, _ in told(tmp_path, text)] == ["resource.gpu_oom"]


def test_a_monitored_barrier_whose_peer_hung_up(tmp_path):
    text = (
        "RuntimeError: Rank 0 successfully reached monitoredBarrier, but received errors while waiting "
        "for send/recv from rank 1. "
        "Please check rank 1 logs for faulty rank.\n"
        " Original exception:\n"
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:589] Connection closed by peer [10.0.0.2]:20000\n"
    )
    assert told(tmp_path, text)[0] == ("network.connection_reset_peer_died", (1,))


SPIED = """\
[rank{rank}]: Thread {pid} (active): "MainThread"
[rank{rank}]:     {inner}
[rank{rank}]:     step (train.py:88)
[rank{rank}]:     <module> (train.py:120)
"""
IN_COLLECTIVE = "all_reduce (torch/distributed/distributed_c10d.py:2050)"


def test_stacks_that_were_posted_name_the_rank_that_stands_elsewhere(tmp_path):
    text = "".join(
        SPIED.format(rank=r, pid=100 + r, inner="read (PIL/Image.py:300)" if r == 2 else IN_COLLECTIVE)
        for r in range(4)
    )
    assert told(tmp_path, text) == [("sync.deadlock_or_hang_waiting_rank", (2,))]


def test_a_stack_of_faulthandler_after_a_time_out(tmp_path):
    text = (
        "Timeout (0:05:00)!\nThread 0x00007f2345678900 (most recent call first):\n"
        '  File "/venv/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
        '  File "/work/train.py", line 88 in step\n  File "/work/train.py", line 120 in <module>\n'
    )
    assert told(tmp_path, text) == [("sync.deadlock_or_hang_waiting_rank", ())]


def test_a_stack_that_steps_follow_is_no_hang(tmp_path):
    text = SPIED.format(rank=0, pid=1, inner=IN_COLLECTIVE) + "".join(
        f"[rank0]: step {n} loss {3 - n / 10:.2f}\n" for n in range(12)
    )
    assert told(tmp_path, text) == []


def test_two_threads_in_collectives(tmp_path):
    text = (
        'Thread 1234 (active): "MainThread"\n    barrier (torch/distributed/distributed_c10d.py:4159)\n'
        "    save (manager.py:218)\n    <module> (train.py:260)\n"
        'Thread 1300 (active): "AsyncCheckpointExecutor_0"\n'
        "    all_gather (torch/distributed/distributed_c10d.py:3346)\n    run (threading.py:975)\n"
    )
    assert told(tmp_path, text)[0] == ("sync.multiple_threads_or_fork", ())


def test_a_package_that_the_program_asks_for(tmp_path):
    text = "ImportError: Please install flash-attn: pip install flash-attn\n"
    assert told(tmp_path, text)[0][0] == "env.missing_shared_library"


def test_backward_runs_its_collectives_on_a_thread_of_its_own(tmp_path):
    text = (
        'Thread 42 (idle): "MainThread"\n    backward (torch/autograd/__init__.py:266)\n'
        "    backward (torch/_tensor.py:522)\n    <module> (tune.py:587)\n"
        "Thread 4076 (idle)\nThread 4079 (active)\n"
        "    all_gather_into_tensor (torch/distributed/distributed_c10d.py:2709)\n"
        "    wrapper (torch/distributed/c10d_logger.py:72)\n"
        "    fetch_sub_module (deepspeed/runtime/zero/partitioned_param_coordinator.py:310)\n"
    )
    assert told(tmp_path, text) == [("sync.deadlock_or_hang_waiting_rank", ())]


def test_a_traceback_that_is_cut_off_is_not_a_healthy_run(tmp_path):
    text = (
        'step 1 loss 2.0\nTraceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
        '    main()\n  File "train.py", line 2, in main\n    step()\n'
    )
    assert told(tmp_path, text) == [("unknown.not_established", ())]


def test_a_main_thread_that_waits_for_its_device(tmp_path):
    text = (
        'Thread 175053 (active): "MainThread"\n    synchronize (torch/cuda/__init__.py:792)\n'
        "    synchronize (deepspeed/accelerator/cuda_accelerator.py:78)\n"
        "    allreduce_gradients (deepspeed/runtime/engine.py:1912)\n"
        "    training_step (transformers/trainer.py:3452)\n    <module> (sft.py:5)\n"
    )
    assert told(tmp_path, text) == [("sync.deadlock_or_hang_waiting_rank", ())]


def test_the_thread_that_asked_for_the_stacks_is_not_the_one_that_hangs(tmp_path):
    text = (
        "Process 3 timed out with traceback:\nCurrent thread 0x00007ff3363ff700 (most recent call first):\n"
        '  File "torch/testing/_internal/common_distributed.py", line 373 in _event_listener\n'
        '  File "threading.py", line 870 in run\n\n'
        "Thread 0x00007ff406132180 (most recent call first):\n"
        '  File "torch/distributed/distributed_c10d.py", line 2477 in barrier\n'
        '  File "multiprocessing/process.py", line 108 in run\n'
    )
    assert told(tmp_path, text)[0][0] == "sync.deadlock_or_hang_waiting_rank"


def test_a_process_that_waits_for_its_input_is_not_said_to_wait_for_others(tmp_path):
    text = (
        'Thread 1 (idle): "MainThread"\n    wait (threading.py:359)\n    get (queue.py:180)\n'
        "    _try_get_data (torch/utils/data/dataloader.py:1310)\n    <module> (t.py:4)\n"
    )
    assert told(tmp_path, text) == []
