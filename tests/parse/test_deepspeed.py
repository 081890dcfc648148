# SPDX-License-Identifier: Apache-2.0
"""What DeepSpeed's launcher, scaler and builder say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.network import ConnectFailed
from keepstep.core.facts.process import ProcessExited, TerminationRequested
from keepstep.core.facts.training import NonFinite
from keepstep.parse.tools.trainers import deepspeed as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(("code", "signal"), [("1", None), ("-9", "SIGKILL"), ("-11", "SIGSEGV")])
def test_an_exit_is_read_without_blaming_the_rank_of_the_command(code, signal):
    text = f"[ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py', '--local_rank=7'] exits with return code = {code}"
    fact = one(text, ProcessExited)
    assert (fact.code, fact.signal, fact.rank) == (int(code), signal, None)


def test_killed_children_were_told_to_end():
    assert one("[INFO] [launch.py:315:sigkill_handler] Killing subprocess 45098", TerminationRequested).pid == 45098


def test_an_exhausted_loss_scale_is_fatal_and_one_overflow_is_not():
    assert one("Exception: Current loss scale already at minimum - cannot decrease scale anymore.", NonFinite).fatal
    assert not one("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536", NonFinite).fatal


def test_batch_sizes_that_do_not_multiply_are_read():
    text = "train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 1 * 8"
    assert one(text, WorldSizeConflict).expected == "64"


def test_another_cuda_is_read():
    assert one("Installed CUDA version 11.1 does not match the version torch was compiled with 10.2", CudaMismatch)


def test_an_exit_of_zero_says_nothing():
    assert facts("exits with return code = 0") == []


FURTHER = [
    (
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 2 * 18 * 7",
        BatchNotDivisible,
        {"batch": "256", "parts": "7"},
    ),
    (
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 32 != 4 * 1 * 4",
        WorldSizeConflict,
        {"expected": "32", "seen": "4 * 1 * 4"},
    ),
    (
        "train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size2 != 1 * 1 * 1",
        WorldSizeConflict,
        {"expected": "2"},
    ),
    (
        "RuntimeError: launcher 'pdsh' not installed.",
        LibraryMissing,
        {"name": "pdsh"},
    ),
    (
        "RuntimeError: CUDA version mismatch! DeepSpeed ops were compiled and installed with a different version than what is being used at runtime.",
        CudaMismatch,
        {},
    ),
    (
        "AssertionError: MoE not supported with Stage 3",
        UnsupportedCombination,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: No slot '2' specified on host 'work1'",
        "No slot 2 specificied on host work1",
        "ValueError: Hostname 'worker-9' not found in hostfile",
        "ValueError: Hostfile is empty or not formatted correctly, unable to proceed with launching.",
        "ValueError: Hostfile contains multiple entries for worker-0, unable to proceed with launching",
        "ValueError: Num nodes is >1 but no extra nodes available via hostfile",
        "ValueError: Cannot specify num_nodes/gpus with include/exclude",
        "AssertionError: Launching training without ssh, but --node_rank is not set correctly.",
    ],
)
def test_a_launcher_that_cannot_make_out_its_hosts_says_so(text):
    assert any(isinstance(fact, ClusterSpecInvalid) for fact in facts(text))


def test_a_host_that_ssh_does_not_reach_is_told():
    text = (
        "RuntimeError: Using hostfile at /job/hostfile but host=10.0.0.2 was not reachable via ssh. If you are running"
    )
    assert one(text, ConnectFailed).peer == "10.0.0.2"


def test_the_call_of_ssh_that_failed_names_the_host():
    text = "CalledProcessError: Command '['ssh', '-o', 'PasswordAuthentication=no', 'manager', 'hostname']' returned non-zero exit status 255."
    assert one(text, ConnectFailed).peer == "manager"


def test_the_command_of_the_only_local_rank_is_that_of_the_one_that_ended():
    text = "[ERROR] [launch.py:324:sigkill_handler] ['python', 'run.py', '--local_rank=0', '--fp16'] exits with return code = -9"
    assert one(text, ProcessExited).local_rank == 0
    assert one(text.replace("=0'", "=7'"), ProcessExited).local_rank is None
