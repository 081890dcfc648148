# SPDX-License-Identifier: Apache-2.0
"""Short pieces of logs, as people post them: the cause that is named, and how sure it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.core.finding import Confidence, Finding


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
    found = first(tmp_path, "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGABRT\n")
    assert found is not None
    assert (found.cause.value, found.ranks, found.confidence) == ("framework.bug_segfault", (1,), Confidence.HYPOTHESIS)


@pytest.mark.parametrize(
    "text, cause, ranks",
    [
        ("epoch 1\n段错误 (核心已转储)\n", "framework.bug_segfault", None),
        ("Loading data\n已杀死\n", "resource.host_oom_killed", None),
        (
            "subprocess.CalledProcessError: Command '['python.exe', 'train.py']' returned non-zero exit status 3221225477.\n",
            "framework.bug_segfault",
            None,
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 3221225477) local_rank: 2 (pid: 15724) of binary: python.exe\n",
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
    line = " iteration {i:8d}/ 5000 | elapsed time per iteration (ms): 812.1 | lm loss: 1.0{i}E+01 | grad norm: nan | number of nan iterations:   0 |\n"
    found = first(tmp_path, "".join(line.format(i=i) for i in range(1, 6)))
    assert found is not None and found.cause.value == "numeric.nan_or_divergence"


@pytest.mark.parametrize("struck, rank", [("master-0", 0), ("worker-0", 1)])
def test_the_workers_of_a_job_with_a_master_follow_it(tmp_path, struck, rank):
    rows = (f"job-{pod}   0/1   {'OOMKilled' if pod == struck else 'Error'}   0   12m\n" for pod in ("master-0", "worker-0"))
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
