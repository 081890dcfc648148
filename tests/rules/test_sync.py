# SPDX-License-Identifier: Apache-2.0
"""Causes between ranks."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


def findings(folder: Path, text: str) -> tuple[Finding, ...]:
    (folder / "run.log").write_text(text)
    return explain_paths([folder]).report.findings


def root(folder: Path, text: str) -> Finding:
    return findings(folder, text)[0]


def timeout(rank: int, seq: int, op: str = "ALLREDUCE", numel: int = 64) -> str:
    return (
        f"[rank{rank}]:[E901 08:12:24.549 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for "
        "600371 milliseconds before timing out.\n"
    )


def status(rank: int, enqueued: int, completed: int, group: str = "0(default_pg)") -> str:
    return (
        f"[rank{rank}]:[E901 08:12:25.549 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID {group} Rank {rank}]  failure "
        f"detected by watchdog at work sequence id: 1 PG status: last enqueued work: {enqueued}, "
        f"last completed work: {completed}\n"
    )


def test_different_sizes_at_one_sequence_number_are_a_mismatch_of_the_odd_rank(tmp_path):
    found = root(tmp_path, timeout(0, 7) + timeout(1, 7, numel=9) + timeout(2, 7) + timeout(3, 7))
    assert found.cause.value == "sync.collective_mismatch"
    assert found.ranks == (1,)


def test_without_numbers_the_rank_in_another_operation_is_named(tmp_path):
    line = (
        "[E ProcessGroupNCCL.cpp:566] [Rank {}] Watchdog caught collective operation timeout: "
        "WorkNCCL(OpType={}, Timeout(ms)=1800000) ran for 1801060 milliseconds before timing out.\n"
    )
    found = root(tmp_path, "".join(line.format(r, "ALLREDUCE" if r == 0 else "BROADCAST") for r in (0, 1, 3, 2, 4)))
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (0,))


def test_of_two_that_differ_the_one_that_is_behind_is_named(tmp_path):
    text = timeout(3, 7) + status(3, 8, 6) + timeout(2, 7, numel=9) + status(2, 7, 6)
    found = root(tmp_path, text)
    assert found.cause.value == "sync.collective_mismatch"
    assert found.ranks == (2,)


def test_equal_numbers_of_different_groups_are_not_compared(tmp_path):
    text = timeout(0, 7, "ALLREDUCE") + status(0, 7, 6, "1") + timeout(1, 7, "BROADCAST") + status(1, 7, 6, "2")
    assert root(tmp_path, text).cause.value == "sync.deadlock_or_hang_waiting_rank"


def test_sizes_of_sends_may_differ(tmp_path):
    found = root(tmp_path, timeout(0, 7, "SEND", 5) + timeout(1, 7, "SEND", 6))
    assert found.cause.value == "sync.deadlock_or_hang_waiting_rank"


def test_the_rank_that_did_not_time_out_is_the_one_waited_for(tmp_path):
    found = root(tmp_path, timeout(0, 7) + timeout(1, 7) + timeout(3, 7))
    assert found.cause.value == "sync.deadlock_or_hang_waiting_rank"
    assert found.ranks == (2,)


def test_the_rank_that_only_heard_of_the_time_out_is_named(tmp_path):
    heard = (
        "[rank1]:[E1 ProcessGroupNCCL.cpp:1806] [PG ID 0 PG GUID 0(default_pg) Rank 1] "
        "Observed flight recorder dump signal from another rank via TCPStore.\n"
    )
    assert root(tmp_path, timeout(0, 7) + heard + timeout(2, 7)).ranks == (1,)


def test_the_rank_whose_last_collective_is_behind_is_named(tmp_path):
    text = timeout(0, 7) + status(0, 9, 6) + timeout(1, 7) + status(1, 9, 6) + status(4, 6, 6)
    assert root(tmp_path, text).ranks == (4,)


def test_a_rank_within_a_group_is_not_taken_for_a_global_one(tmp_path):
    text = timeout(9, 7).replace("[Rank 9]", "[Rank 1]") + timeout(8, 7).replace("[Rank 8]", "[Rank 0]")
    assert "ranks 8 and 9" in root(tmp_path, text).title


def test_a_barrier_that_names_ranks_is_believed(tmp_path):
    found = root(tmp_path, "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 30000 ms\n")
    assert found.cause.value == "sync.deadlock_or_hang_waiting_rank"
    assert found.ranks == (1,)


def test_a_time_out_is_a_symptom_of_another_ranks_exception(tmp_path):
    text = timeout(0, 7) + (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/srv/train.py", line 5, in main\n[rank1]:     batch["labels"]\n'
        "[rank1]: KeyError: 'labels'\n"
    )
    found = root(tmp_path, text)
    assert found.cause.value == "user.code_exception"
    assert found.ranks == (1,)


def test_parameters_without_gradient_are_named(tmp_path):
    text = (
        "[rank0]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\n"
        "[rank0]: Parameters which did not receive grad for rank 0: head.weight\n"
    )
    found = root(tmp_path, text)
    assert found.cause.value == "sync.unused_parameters"
    assert "head.weight" in found.title


def test_models_that_differ_are_a_desync(tmp_path):
    text = (
        "RuntimeError: DDP expects same model across all ranks, but Rank 5 has 128 params, "
        "while rank 0 has inconsistent 3 params.\n"
    )
    assert root(tmp_path, text).cause.value == "sync.replica_desync"


def test_a_folder_that_another_rank_made_first_is_a_race(tmp_path):
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/srv/train.py", line 5, in main\n[rank1]:     os.makedirs(out)\n'
        '[rank1]:   File "/usr/lib/python3.11/os.py", line 225, in makedirs\n[rank1]:     mkdir(name, mode)\n'
        "[rank1]: FileExistsError: [Errno 17] File exists: '/srv/out'\n"
    )
    found = root(tmp_path, text)
    assert found.cause.value == "sync.race_on_shared_state"
    assert found.ranks == (1,)


def test_a_fork_that_was_only_warned_of_gives_nothing(tmp_path):
    line = (
        "RuntimeWarning: os.fork() was called. "
        "os.fork() is incompatible with multithreaded code, and JAX is multithreaded\n"
    )
    assert findings(tmp_path, line) == ()


def test_ranks_of_one_log_that_are_at_different_steps_are_out_of_step(tmp_path):
    lines = [
        f"INFO:tensorflow:loss = 0.1, step = {step + n}, rank = {rank}.0 (2.1 sec)"
        for n in (0, 10, 20)
        for rank, step in ((0, 140), (1, 140), (2, 2642))
    ]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n")
    (found,) = explain_paths([tmp_path]).report.findings
    assert found.cause.value == "sync.replica_desync"


def test_ranks_at_one_step_give_nothing(tmp_path):
    lines = [
        f"INFO:tensorflow:loss = 0.1, step = {140 + n}, rank = {rank}.0 (2.1 sec)"
        for n in (0, 10, 20)
        for rank in (0, 1)
    ]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n")
    assert explain_paths([tmp_path]).report.findings == ()


WAITS = (
    "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for rank: 1, "
    "key: store_based_barrier_key:1 (world_size=4, worker_count=1, timeout=0:30:00)\n"
)


def test_a_start_that_ends_in_waiting_for_the_others_is_a_hang(tmp_path):
    assert root(tmp_path, WAITS * 3).cause.value == "sync.deadlock_or_hang_waiting_rank"


def test_a_start_that_waits_and_then_trains_says_nothing(tmp_path):
    steps = "".join(f"step {n}/100 loss {1 / (n + 1):.3f}\n" for n in range(1, 6))
    assert findings(tmp_path, WAITS * 3 + steps) == ()


def test_ranks_whose_last_words_are_the_folder_of_extensions_wait_for_a_lock_there(tmp_path):
    text = "Using /root/.cache/torch_extensions/py310_cu118 as PyTorch extensions root...\n" * 3
    assert root(tmp_path, text).cause.value == "sync.race_on_shared_state"
    assert (
        findings(tmp_path, text + "Loading extension module cpu_adam...\nTime to load cpu_adam op: 2.3 seconds\n") == ()
    )


def test_a_log_that_ends_when_only_some_ranks_have_come_tells_of_a_wait_for_the_others(tmp_path):
    text = "".join(f"initializing ddp: GLOBAL_RANK: {n}, MEMBER: {n + 1}/8\n" for n in range(4))
    assert root(tmp_path, text).cause.value == "sync.deadlock_or_hang_waiting_rank"
    assert findings(tmp_path, text + "All distributed processes registered.\nEpoch 0: 3/10 loss=0.4\n") == ()


def test_what_does_not_fit_after_a_rank_was_killed_is_no_mismatch(tmp_path):
    gloo = (
        "[rank0]: RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] "
        "op.preamble.length <= op.nbytes. 8192 vs 4\n"
    )
    killed = (
        "train.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  time      : 2025-09-01_08:12:24\n"
        "  host      : a\n  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 4242)\n  error_file: <N/A>\n"
        "  traceback : Signal 9 (SIGKILL) received by PID 4242\n"
    )
    assert root(tmp_path, gloo).cause.value == "sync.collective_mismatch"
    found = root(tmp_path, gloo + killed)
    assert (found.cause.value, found.ranks) == ("resource.host_oom_killed", (3,))


GLOO = "UNKNOWN: Gloo ReduceScatter failed: [external/gloo/gloo/transport/tcp/"
LATE = f"{GLOO}buffer.cc:72] Read timeout [::1]:38624\n"
CLOSED = f"{GLOO}pair.cc:547] Connection closed by peer [::1]:2475\n"


def test_connections_that_end_after_one_waited_in_vain_follow_from_the_wait(tmp_path):
    assert root(tmp_path, LATE + CLOSED).cause.value == "sync.deadlock_or_hang_waiting_rank"


def test_a_connection_that_ended_before_anyone_waited_in_vain_is_the_reason(tmp_path):
    assert root(tmp_path, CLOSED + LATE).cause.value == "network.connection_reset_peer_died"


def test_a_rank_that_stops_early_by_itself_leaves_the_others_in_a_collective(tmp_path):
    found = root(tmp_path, "[rank0]: Early stopping conditions are met. Exiting.\n" + timeout(1, 7) + timeout(2, 7))
    assert (found.rule, found.cause.value, found.ranks) == ("SYN050", "sync.collective_mismatch", (0,))


def test_ranks_that_all_stop_early_are_not_out_of_step(tmp_path):
    stops = "".join(f"[rank{rank}]: Early stopping conditions are met. Exiting.\n" for rank in range(2))
    assert "SYN050" not in [found.rule for found in findings(tmp_path, stops + timeout(0, 7) + timeout(1, 7))]
