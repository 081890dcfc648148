# SPDX-License-Identifier: Apache-2.0
"""Short pieces of logs, as people post them: the cause that is named, and how sure it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Confidence, Finding


def first(folder: Path, text: str) -> Finding | None:
    (folder / "log.txt").write_text(text)
    findings = explain_paths([folder / "log.txt"]).report.findings
    return findings[0] if findings else None


DEEPSPEED = "[2024-06-11 00:23:36,254] [INFO] [comm.py:637:init_distributed] cdb=None\n"
BUFFERED = (
    "n1:11:11 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 100 - Init START\n"
    "n1:12:12 [1] NCCL INFO comm 0x56 rank 1 nranks 2 cudaDev 1 busId 200 - Init START\n"
)


@pytest.mark.parametrize(
    "text",
    [
        DEEPSPEED * 2,
        BUFFERED,
        "INFO:lightning:[Rank 0] DeepSpeed info: version=0.14.0, git-hash=unknown, git-branch=unknown\n",
    ],
)
def test_a_log_that_ends_in_the_set_up_is_guessed_to_hang(tmp_path, text):
    found = first(tmp_path, text)
    assert found is not None
    assert (found.rule, found.cause.value) == ("SYN064", "sync.deadlock_or_hang_waiting_rank")
    assert found.confidence is Confidence.HYPOTHESIS


@pytest.mark.parametrize(
    "text",
    [
        BUFFERED + "step 1 loss 2.5\nstep 2 loss 2.4\nstep 3 loss 2.3\n",
        DEEPSPEED + "Training complete\n",
        "n1:11:11 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 100 - Destroy COMPLETE\n",
    ],
)
def test_a_log_that_goes_on_after_the_set_up_is_not(tmp_path, text):
    found = first(tmp_path, text)
    assert found is None or found.rule != "SYN064"


def test_native_code_that_gave_up_without_a_word_is_guessed_to_be_the_frameworks(tmp_path):
    found = first(
        tmp_path, "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGABRT\n"
    )
    assert found is not None
    assert (found.cause.value, found.ranks, found.confidence) == ("framework.bug_segfault", (1,), Confidence.HYPOTHESIS)


@pytest.mark.parametrize(
    "text, cause, ranks",
    [
        ("epoch 1\n段错误 (核心已转储)\n", "framework.bug_segfault", None),
        ("Loading data\n已杀死\n", "resource.host_oom_killed", None),
        (
            (
                "subprocess.CalledProcessError: Command '['python.exe', 'train.py']' returned non-zero exit "
                "status 3221225477.\n"
            ),
            "framework.bug_segfault",
            None,
        ),
        (
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 3221225477) local_rank: "
                "2 (pid: 15724) of binary: python.exe\n"
            ),
            "framework.bug_segfault",
            (2,),
        ),
        (
            "[rank2]: ncclInternalError: Internal check failed.\n[rank2]: Last error:\n"
            "[rank2]: Failed to find reverse path from remNode 0/200000 nlinks 3 to node 0/700000\n",
            "framework.bug_segfault",
            None,
        ),
    ],
)
def test_short_last_words_are_read(tmp_path, text, cause, ranks):
    found = first(tmp_path, text)
    assert found is not None and found.cause.value == cause
    if ranks is not None:
        assert found.ranks == ranks


def test_a_gradient_that_is_no_number_is_read_from_the_lines_of_progress(tmp_path):
    line = (
        " iteration {i:8d}/ 5000 | elapsed time per iteration (ms): 812.1 | lm loss: 1.0{i}E+01 | grad norm: "
        "nan | number of nan iterations:   0 |\n"
    )
    found = first(tmp_path, "".join(line.format(i=i) for i in range(1, 6)))
    assert found is not None and found.cause.value == "numeric.nan_or_divergence"


@pytest.mark.parametrize("struck, rank", [("master-0", 0), ("worker-0", 1)])
def test_the_workers_of_a_job_with_a_master_follow_it(tmp_path, struck, rank):
    rows = (
        f"job-{pod}   0/1   {'OOMKilled' if pod == struck else 'Error'}   0   12m\n" for pod in ("master-0", "worker-0")
    )
    found = first(tmp_path, "NAME           READY   STATUS      RESTARTS   AGE\n" + "".join(rows))
    assert found is not None
    assert (found.cause.value, found.ranks) == ("resource.host_oom_killed", (rank,))


def test_an_executable_that_mpi_cannot_find_names_its_rank(tmp_path):
    text = (
        "prterun was unable to find the specified executable file, and therefore did\nnot launch the job.  "
        "This error was first reported for process rank\n1; it may have occurred for other processes as well.\n\n"
        "NOTE: A common cause for this error is misspelling a prterun command\n   line parameter option\n\n"
        "   Node:       n2\n   Executable: /opt/env/bin/python\n"
    )
    found = first(tmp_path, text)
    assert found is not None and found.ranks == (1,)


REMOVED = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/srv/train.py", line 9, in <module>
[rank0]:     {code}
[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '._signal_file_node0'
"""


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("os.remove(signal_file_path)", "sync.race_on_shared_state"),
        ("os.rename(tmp, final)", "sync.race_on_shared_state"),
        ("path.unlink()", "sync.race_on_shared_state"),
        ("open(signal_file_path)", "user.code_exception"),
    ],
)
def test_a_file_that_was_gone_when_it_was_to_be_removed_was_raced_for(tmp_path, code, cause):
    found = first(tmp_path, REMOVED.format(code=code))
    assert found is not None and found.cause.value == cause


DIVIDED = """\
Traceback (most recent call last):
  File "/srv/attention.py", line 49, in forward
    {code}
  File "/opt/lib/python3.8/site-packages/x/utils.py", line 52, in divide
    assert numerator % denominator == 0, \\
AssertionError: 96 is not divisible by 64
"""


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("num_attention_heads = divide(all_head_size, self.attention_head_size)", "config.world_size_mismatch"),
        ("micro = divide(global_batch_size, parts)", "data.batch_not_divisible"),
    ],
)
def test_what_does_not_divide_is_told_by_the_line_that_divides(tmp_path, code, cause):
    found = first(tmp_path, DIVIDED.format(code=code))
    assert found is not None and found.cause.value == cause


@pytest.mark.parametrize(("rank", "cause"), [(10, "network.wrong_interface"), (1, "network.unreachable_or_firewall")])
def test_nccl_on_the_loopback_is_wrong_where_the_ranks_cannot_be_on_one_host(tmp_path, rank, cause):
    text = (
        f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, "
        f"unhandled system error\n"
        f"[rank{rank}]: Last error:\n"
        f"[rank{rank}]: socketStartConnect: Connect to 127.0.0.1<45069> failed : Software caused connection abort\n"
    )
    found = first(tmp_path, text)
    assert found is not None and found.cause.value == cause


def test_a_log_in_which_one_member_alone_speaks_is_that_members(tmp_path):
    text = (
        "FileNotFoundError: [Errno 2] Failed to open local file '/c/datasets/json/x/cache-1.arrow'. "
        "Detail: [errno 2] No such\n"
        "NCCL INFO comm 0x24a37dd0 rank 1 nranks 2 cudaDev 0 busId 2010 - Abort COMPLETE\n"
    )
    found = first(tmp_path, text)
    assert found is not None and found.ranks == (1,)
    both = text + "NCCL INFO comm 0x24a37dd1 rank 0 nranks 2 cudaDev 1 busId 2020 - Abort COMPLETE\n"
    found = first(tmp_path, both)
    assert found is not None and found.ranks == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("RuntimeError: it is not available. Original import error message: none\n", "hardware.nic_fault"),
        (
            "ImportError: The engine is unavailable because the torch.npu module is not available.\n",
            "network.connection_reset_peer_died",
        ),
        ("ImportError: Could not resolve 'x.y': not a module and not found in z.\n", "network.dns"),
        ("AssertionError: num_layers_per_rank 4 should be divisible by vp_size 3\n", "data.batch_not_divisible"),
        ("ValueError: rollout GPUs (8) must be divisible by tp*dp (3)\n", "data.batch_not_divisible"),
    ],
)
def test_words_that_only_look_alike_do_not_name_a_cause(tmp_path, text, wrong):
    found = first(tmp_path, text)
    assert found is None or found.cause.value != wrong


def test_a_check_that_failed_beside_a_traceback_that_was_cut_is_still_the_crash(tmp_path):
    text = (
        "/ray/build/arrow/cpp/src/plasma/client.cc:620 Check failed: object_entry != objects_in_use_.end()\n"
        "Traceback (most recent call last):\n"
        '  File "train.py", line 12, in <module>\n'
        "    main()\n"
    )
    found = first(tmp_path, text)
    assert found is not None and found.cause.value == "framework.bug_segfault"


NCCL_INIT = (
    "host-{host}:4{rank}:98{rank} [0] NCCL INFO ncclCommInitRank comm 0x39{rank} rank {rank} nranks 2 cudaDev "
    "0 nvmlDev 0 busId 100000 commId 0xaa9b - Init START\n"
)
REFUSED = "RuntimeError: NCCL error in communicator.cpp:90 'invalid usage (run with NCCL_DEBUG=WARN for details)'\n"


def test_ranks_that_state_one_device_of_one_host_are_told_where_nccl_refused(tmp_path):
    log = NCCL_INIT.format(host=0, rank=0) + NCCL_INIT.format(host=0, rank=1)
    found = first(tmp_path, log + REFUSED)
    assert found is not None and found.rule == "CFG011" and found.ranks == (0, 1)
    alone = first(tmp_path, log)
    assert alone is None or alone.rule != "CFG011"
    apart = first(tmp_path, NCCL_INIT.format(host=0, rank=0) + NCCL_INIT.format(host=1, rank=1) + REFUSED)
    assert apart is None or apart.rule != "CFG011"
