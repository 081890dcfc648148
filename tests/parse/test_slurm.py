# SPDX-License-Identifier: Apache-2.0
"""What Slurm says."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, NotScheduled
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.core.facts.network import ConnectFailed, PeerLost
from keepstep.core.facts.platform import MachineFault, Preempted
from keepstep.core.facts.process import ProcessExited, TerminationRequested
from keepstep.core.facts.resource import OomKilled
from keepstep.parse.tools.slurm import steps as table

WORDINGS = [
    (
        "slurmstepd: error: *** STEP 12.0 ON n1 FAILED (non-zero exit code or other failure mode) ***",
        TerminationRequested,
        {"by": "agent"},
    ),
    ("slurmstepd: error: execve(): ./train.sh: Permission denied", LibraryMissing, {"name": "./train.sh"}),
    (
        "srun: error: Unable to confirm allocation for job 1234: Invalid job id specified",
        ClusterSpecInvalid,
        {"detail": "Unable to confirm allocation for job 1234: Invalid job id specified"},
    ),
    (
        "srun: error: slurm_receive_msgs: [[n1.cluster]:6818] failed: Socket timed out on send/recv operation",
        ConnectFailed,
        {"peer": "n1.cluster"},
    ),
    (
        "srun: error: Task launch for StepId=96.0 failed on node n1: Zero Bytes were transmitted or received",
        ConnectFailed,
        {},
    ),
    (
        "srun: error: Task launch for StepId=96.0 failed on node n1: Incompatible versions of client and server code",
        VersionConflict,
        {"component": "Slurm"},
    ),
    (
        "srun: First task exited 30s ago\nsrun: StepId=5.0 tasks 0-2: running\nsrun: StepId=5.0 task 3: exited abnormally\nsrun: Terminating StepId=5.0",
        ProcessExited,
        {"rank": 3, "code": 1, "first": True},
    ),
    (
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.",
        OomKilled,
        {"by": "Slurm"},
    ),
    (
        "slurmstepd: error: Detected 2 oom_kill events in StepId=113.0. Some of the step tasks have been OOM Killed.",
        OomKilled,
        {"by": "Slurm"},
    ),
    (
        "slurmstepd: error: Step 123.0 exceeded memory limit (1234 > 1000), being killed",
        OomKilled,
        {"limit": "1234 > 1000"},
    ),
    (
        "slurmstepd: error: *** JOB 1234 ON gpu01 CANCELLED AT 2021-01-01T00:00:00 DUE TO TIME LIMIT ***",
        Preempted,
        {"reason": "time limit", "node": "gpu01"},
    ),
    (
        "slurmstepd: error: *** STEP 1.0 ON gpu01 CANCELLED AT 2021-01-01T00:00:00 DUE TO PREEMPTION ***",
        Preempted,
        {"reason": "preemption"},
    ),
    (
        "slurmstepd: error: *** JOB 1234 ON gpu01 CANCELLED AT 2021-01-01T00:00:00 ***",
        TerminationRequested,
        {"by": "scheduler"},
    ),
    ("srun: error: Node failure on gpu07", MachineFault, {"node": "gpu07"}),
    ("srun: error: gpu03: task 3: Killed", ProcessExited, {"rank": 3, "signal": "SIGKILL", "node": "gpu03"}),
    ("srun: error: gpu03: tasks 0,2-3: Exited with exit code 1", ProcessExited, {"rank": 3, "code": 1}),
    (
        "srun: error: gpu03: task 1: Segmentation fault (core dumped)",
        ProcessExited,
        {"rank": 1, "signal": "SIGSEGV"},
    ),
    ("srun: error: gpu03: task 0: Out Of Memory", OomKilled, {"rank": 0}),
    ("1234.batch  batch  acct  8 OUT_OF_ME+ 0:125", OomKilled, {}),
    (
        "srun: error: Task launch for StepId=42.0 failed on node gpu3: Job credential expired",
        ClusterSpecInvalid,
        {},
    ),
    (
        "srun: error: Task launch for 42.0 failed on node gpu3: Communication connection failure",
        ConnectFailed,
        {"peer": "gpu3"},
    ),
    ("slurmstepd: error: execve(): python: No such file or directory", LibraryMissing, {"name": "python"}),
    (
        "slurmstepd: error: mpi/pmix_v3: _errhandler: a [0]: pmixp_client_v2.c:212: Error handler invoked: status = -25, source = [slurm.pmix.42.0:3]",
        PeerLost,
        {"peer_rank": 3},
    ),
    ("srun: error: task 0 launch failed: Unspecified error", ClusterSpecInvalid, {}),
    ("srun: unrecognized option '--container-image'", ClusterSpecInvalid, {}),
    ("slurmstepd: error: pyxis: [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1", CudaMismatch, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "srun: job 1234 queued and waiting for resources",
        "srun: job 1234 has been allocated resources",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


FURTHER = [
    (
        "slurmstepd-gpu03: error: StepId=8.0 exceeded memory limit (33554432 > 31457280), being killed",
        OomKilled,
        {"limit": "33554432 > 31457280"},
    ),
    (
        "slurmstepd: error: Exceeded job memory limit",
        OomKilled,
        {"by": "Slurm"},
    ),
    (
        "slurmstepd-n1: error: Detected 1 oom_kill event in StepId=11.0.",
        OomKilled,
        {},
    ),
    (
        "srun: error: Unable to create step for job 481233: More processors requested than permitted",
        NotScheduled,
        {"by": "Slurm", "never": True},
    ),
    (
        "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files",
        UnsupportedCombination,
        {"what": "Slurm has no plugin mpi/pmix"},
    ),
    (
        "srun: fatal: cpus-per-task set by two different environment variables SLURM_CPUS_PER_TASK=8 != SLURM_TRES_PER_TASK=cpu:16",
        ClusterSpecInvalid,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


FURTHER_NEAR = [
    "srun: error: Task launch for StepId=96.0 failed on node n2: No such process",
    "slurmstepd: error: Exceeded step memory limit at some point.",
]


@pytest.mark.parametrize("text", FURTHER_NEAR)
def test_a_further_near_miss_says_nothing(text, read):
    assert read(table, text) == []
