"""Words that tell whose failure it was."""

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSeen
from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.network import PeerLost
from keepstep.core.facts.process import ProcessExited, TaskNamed
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.core.facts.sync import CommMember
from keepstep.parse.scan.prefix import Prefixes, heading
from keepstep.parse.tools.cuda import device_memory
from keepstep.parse.tools.mpi import launchers as mpi
from keepstep.parse.tools.mpi import mpich
from keepstep.parse.tools.nccl import messages as nccl
from keepstep.parse.tools.other_devices import hccl
from keepstep.parse.tools.programs import checkpoints as checkpoint
from keepstep.parse.tools.programs import launch_refusals, rank_reports, world_announcements
from keepstep.parse.tools.python import spawn
from keepstep.parse.tools.system import shell
from keepstep.parse.tools.tensorflow import runtime as tensorflow
from keepstep.parse.tools.torch import elastic as torch_elastic
from keepstep.parse.tools.trainers import ps_lite

CHILD = "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py', '--local_rank={}']' returned non-zero exit status 1."


@pytest.mark.parametrize(
    ("table", "text", "kind", "fields"),
    [
        (
            torch_elastic,
            "failed (exitcode: -9) for binary located at /opt/bin/python3.10 with local_rank: 3 (process ID: 71)",
            ProcessExited,
            {"local_rank": 3, "pid": 71, "signal": "SIGKILL"},
        ),
        (torch_elastic, "    cmd=process.args)\n" + CHILD.format(3), ProcessExited, {"local_rank": 3, "code": 1}),
        (
            torch_elastic,
            "Root Cause (first observed failure):\n[0]:\n  time      : 1970-01-01_00:01:40\n  rank      : 4 (local_rank: 0)\n"
            "  exitcode  : 1 (pid: 9)\n",
            ProcessExited,
            {"rank": 4, "first": True, "failed_at": 100.0},
        ),
        (
            torch_elastic,
            "Child process 32378 (local_rank 2) FAILED (exitcode -9)",
            ProcessExited,
            {"local_rank": 2, "signal": "SIGKILL"},
        ),
        (tensorflow, 'InvalidArgumentError: Task 2 was not defined in job "worker"', TaskNamed, {"rank": 2}),
        (
            rank_reports,
            "ERROR:  One or more process (first noticed rank 3) terminated with signal 9",
            ProcessExited,
            {"rank": 3, "signal": "SIGKILL"},
        ),
        (
            rank_reports,
            "_pmiu_daemon(SIGCHLD): [NID 00123] [c0-0] [Thu] PE RANK 3 exit signal Killed",
            ProcessExited,
            {"rank": 3, "signal": "SIGKILL"},
        ),
        (
            rank_reports,
            "0.5s: flux-shell[0]: FATAL: task 3 (host node1): start failed: python: No such file",
            ProcessExited,
            {"rank": 3},
        ),
        (rank_reports, "(TorchTrainer pid=1) Worker 3 has failed.", TaskNamed, {"rank": 3}),
        (rank_reports, "\tname: a1B2c3WorkerDict_0:6", TaskNamed, {"rank": 6}),
        (
            ps_lite,
            "subprocess.CalledProcessError: Command 'ssh h2 -p 22 'export DMLC_WORKER_ID=1; export DMLC_ROLE=worker; cd /a; python t.py''"
            " returned non-zero exit status 1.",
            ProcessExited,
            {"rank": 1, "code": 1},
        ),
        (
            tensorflow,
            "Worker /job:worker/replica:0/task:2 failed with ResourceExhaustedError():",
            TaskNamed,
            {"rank": 2},
        ),
        (
            tensorflow,
            "ERROR:tensorflow: /job:worker/task:3 encountered the following error when processing closure: OutOfRangeError()",
            TaskNamed,
            {"rank": 3},
        ),
        (
            rank_reports,
            "FileNotFoundError: [Errno 2] No such file or directory: '../out/3/log_rank2.txt'",
            TaskNamed,
            {"rank": 2},
        ),
        (tensorflow, "INFO:tensorflow:Member 1 has received termination notice.", TaskNamed, {"rank": 1}),
        (rank_reports, "Training failed on rank 3: RuntimeError: boom", TaskNamed, {"rank": 3}),
        (rank_reports, "Exception raised in global rank 12", TaskNamed, {"rank": 12}),
        (
            mpi,
            "prterun noticed that process rank 3 with PID 123 on node a exited on\nsignal 9 (Killed).",
            ProcessExited,
            {"rank": 3, "signal": "SIGKILL"},
        ),
        (
            mpi,
            "   Process name: [prterun-node1-12345@1,3] Exit code:    1",
            ProcessExited,
            {"rank": 3, "code": 1, "first": True},
        ),
        (mpi, "  Process name: [[29973,1],3]\n  Exit code:    2", ProcessExited, {"rank": 3, "code": 2, "first": True}),
        (shell, CHILD.format(0), ProcessExited, {"local_rank": 0, "code": 1}),
        (shell, CHILD.format(3), ProcessExited, {"local_rank": None, "code": 1}),
        (spawn, "process 0 terminated with exit code 3221226505", ProcessExited, {"rank": 0, "signal": "SIGABRT"}),
        (
            hccl,
            "[ERROR] 2024-05-21-11:57:54 (PID:927000, Device:3, RankID:3) ERR02200 DIST call hccl api failed.",
            TaskNamed,
            {"rank": 3},
        ),
        (checkpoint, "Traceback (most recent call last): (RANK 12)", TaskNamed, {"rank": 12}),
        (
            nccl,
            "a:1:2 [1] NCCL INFO ncclCommInitRank comm 0x63 rank 5 nranks 8 cudaDev 1 busId 1000 - Init COMPLETE",
            CommMember,
            {"index": 5, "size": 8},
        ),
        (nccl, "a:1:2 [0] NCCL INFO comm 0x7fa94834c010 rank 1 nranks 2", CommMember, {"index": 1, "size": 2}),
        (
            mpich,
            "MPIDI_OFI_handle_cq_error(1062): OFI poll failed (ofi_events.c:1064:MPIDI_OFI_handle_cq_error:Input/output error - VNI_NOT_FOUND)",
            PeerLost,
            {},
        ),
        (launch_refusals, "RuntimeError: No rendezvous handler for env://", UnsupportedCombination, {}),
        (launch_refusals, "RuntimeError: No rendezvous handler for foo://", ClusterSpecInvalid, {}),
        (
            device_memory,
            "F tensorflow/core Non-OK-status: GpuLaunchKernel(FillPhilox<D>, n, b, 0, d.stream(), gen) status: Internal: out of memory",
            DeviceMemoryExhausted,
            {},
        ),
        (world_announcements, "I am rank 0 in this world of size 2!", WorldSeen, {"index": 0, "size": 2}),
        (world_announcements, "I'm process 3 of 8", WorldSeen, {"index": 3, "size": 8}),
    ],
)
def test_the_wording_is_read(table, text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize("error", ["UnavailableError", "AbortedError"])
def test_a_closure_that_found_its_worker_gone_names_nobody(error, read):
    assert TaskNamed(rank=4) not in read(
        tensorflow, f"Worker /job:worker/replica:0/task:4 failed with {error}():Graph execution error"
    )


def test_a_server_of_the_dmlc_tracker_is_no_rank(read):
    line = "Command 'export DMLC_WORKER_ID=1; export DMLC_ROLE=server; python t.py' returned non-zero exit status 1."
    assert all(getattr(fact, "rank", None) is None for fact in read(ps_lite, line))


def test_a_rank_that_is_not_known_yet_is_none(read):
    assert read(hccl, "(PID:1, Device:0, RankID:-1) ERR02200 DIST call hccl api failed.") == []


@pytest.mark.parametrize(
    "text", ["loading shard on rank 3", "no error on rank-zero logging", "1 worker has failed. Restarting"]
)
def test_words_that_blame_nobody_say_nothing(text, read):
    assert read(rank_reports, text) == []


def test_a_program_that_says_whose_exception_it_got_is_believed():
    writer, _ = Prefixes(()).split("Rank 3 got exception: CUDA out of memory")
    assert writer.rank == 3
    assert Prefixes(()).split("Rank 3 is ready")[0].rank is None


def test_the_errors_of_a_group_of_workers_come_under_their_ranks():
    writer = heading("[Rank 3 Error Snippet]:")
    assert writer is not None and writer.rank == 3


def test_torchruns_tee_tells_the_rank_on_its_host():
    writer, text = Prefixes(()).split("[default2]:boom")
    assert (writer.rank, writer.local, text) == (None, 2, "boom")


def test_only_the_process_itself_is_sure_to_number_ranks():
    own, _ = Prefixes(()).split("[rank2]: boom")
    viewers, _ = Prefixes(()).split("(worker1, rank=1, pid=4711) boom")
    assert own.own and not viewers.own and viewers.role is None


def test_a_described_pod_names_the_writer_of_what_follows():
    writer = heading("Name:           job-1535595694-chief-0")
    assert writer is not None and (writer.rank, writer.role) == (0, "chief")
    assert heading("Name: nvidia-driver-0") is None
