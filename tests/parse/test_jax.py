# SPDX-License-Identifier: Apache-2.0
"""What JAX says of its processes."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import (
    AddressIsLocal,
    ClusterSpecInvalid,
    DuplicateMember,
    RankVariableMissing,
    WorldSizeConflict,
)
from keepstep.core.facts.data import BatchNotDivisible, ShapeMismatch
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.platform import MemberRestarted, TpuInitFailed
from keepstep.core.facts.process import ProcessExited
from keepstep.parse.tools.jax import distributed as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ValueError: coordinator_address should be defined.", "coordinator_address"),
        ("ValueError: Number of processes must be defined.", "num_processes"),
        ("KeyError: 'SLURM_NTASKS'", "SLURM_NTASKS"),
        ("KeyError: 'OMPI_COMM_WORLD_SIZE'", "OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_a_missing_identity_is_named(text, name):
    assert one(text, RankVariableMissing).name == name


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "RuntimeError: jax.distributed.initialize() must be called before any JAX computations are executed.",
            ClusterSpecInvalid,
        ),
        ("ALREADY_EXISTS: Aborted connect attempt as there is a request from a newer incarnation.", DuplicateMember),
        ("Duplicate task registration with task_name=/job:jax_worker/replica:0/task:0", DuplicateMember),
        (
            "compiling computation that requires 8 logical devices, but only 4 XLA devices are available (num_replicas=8)",
            WorldSizeConflict,
        ),
        (
            "IndivisibleError: Sharding implies that array axis 0 is partitioned 4 times, but the dimension size is 30 (full shape)",
            BatchNotDivisible,
        ),
        (
            "specs entry. Consider checking that in_specs are correct, and if so consider changing the mesh axis sizes or else "
            "padding the input and adapting 'f' appropriately.",
            BatchNotDivisible,
        ),
    ],
)
def test_a_wrong_set_up_is_read(text, kind):
    assert one(text, kind)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeWarning: os.fork() was called. os.fork() is incompatible with multithreaded code, and JAX is multithreaded, "
        "so this will likely lead to a deadlock.",
        "KeyError: 'label'",
        "INFO: Starting JAX distributed service on [::]:51993",
    ],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "seen", "expected"),
    [
        ("ValueError: Number of devices 8 must be >= the product of mesh_shape (4, 4)", "8", "(4, 4)"),
        ("ValueError: Number of slices 1 must equal the product of dcn_mesh_shape (2, 1)", "1", "(2, 1"),
        ("Number of devices 8 does not match the product of the ICI parallelism 16", "8", "16"),
        ("pmap(f) requires 8 replicas, but only 4 XLA devices are available", "4", "8"),
        (
            "ValueError: Shape does not match the number of devices. Received: shape=(2, 4); devices.shape=(4,)",
            "(4,)",
            "(2, 4)",
        ),
    ],
)
def test_a_mesh_that_the_devices_do_not_fill_is_read(text, seen, expected):
    fact = one(text, WorldSizeConflict)
    assert (fact.seen, fact.expected) == (seen, expected)


@pytest.mark.parametrize(
    "text",
    [
        "argument arrays with axis sizes that are not evenly divisible by the corresponding mesh axis sizes:",
        "shape=(6, 4) is incompatible with mesh_shape=(8,): dim_size=6 is not divisible by axis_size=8.",
        "ValueError: Shape [10, 3] cannot be sharded 8 ways along dimension 0",
    ],
)
def test_a_batch_that_does_not_divide_is_read(text):
    assert one(text, BatchNotDivisible)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: Received incompatible devices for jitted computation. Got argument",
        'executable is built for device CUDA:0 of type "TITAN V"; cannot run it on device CUDA:1 of type "Quadro K2200"',
        "PartitionId instruction is not supported for SPMD partitioning since the meaning is ambiguous",
    ],
)
def test_what_jax_refuses_to_combine_is_read(text):
    assert one(text, UnsupportedCombination).what


def test_a_failed_replica_names_its_rank():
    assert one("Execution of replica 1 failed: Invalid argument: executable is built", ProcessExited).rank == 1


def test_a_loopback_coordinator_of_several_processes_is_doubtful():
    text = 'jax.distributed.initialize(coordinator_address="localhost", num_processes=8, process_id=0)'
    assert one(text, AddressIsLocal).certain is False


def test_a_loopback_coordinator_of_one_process_is_right():
    text = 'jax.distributed.initialize(coordinator_address="localhost:1234", num_processes=1, process_id=0)'
    assert not any(isinstance(fact, AddressIsLocal) for fact in facts(text))


def test_a_topology_that_is_there_already_is_of_an_earlier_life():
    assert one("ALREADY_EXISTS: Config key cpu:local_topology/cpu/3 already exists.", MemberRestarted).member == "3"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "The number of devices in physical mesh (4, 4, 8) does not match the number of devices in logical mesh 64.",
            WorldSizeConflict,
        ),
        ("len(shards) = 2 must equal len(devices) = 4.", WorldSizeConflict),
        ("Insufficient devices for 2D mesh: found 1, expected 8 for mesh shape (1, 8).", WorldSizeConflict),
        ("Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present.", CudaMismatch),
        ("Unknown backend: 'tpu' requested, but no platforms that are instances of tpu are present.", TpuInitFailed),
        ("is only valid for values of rank at least 2, but was applied to a value of rank 1", ShapeMismatch),
    ],
)
def test_devices_and_axes_that_a_mesh_wants_and_does_not_get(text, kind):
    assert isinstance(one(text, kind), kind)
