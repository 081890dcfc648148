# SPDX-License-Identifier: Apache-2.0
"""Refusals of JAX, its runtime, Flax, Orbax, T5X and MaxText, as they word them."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, DuplicateMember, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, DtypeMismatch, ShapeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.network import PeerLost, PortTaken, RendezvousTimeout
from keepstep.core.facts.platform import TpuInitFailed
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.core.facts.sync import (
    CollectiveMismatch,
    CollectiveTimeout,
    ForkOrThread,
    GroupShutDown,
    RanksMissing,
    ReplicasDiffer,
)
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.tools.jax import refusals as jax_refusals
from tests.parse.reading import reader

read = reader(jax_refusals)

_XLA = "jaxlib.xla_extension.XlaRuntimeError: "

WORDINGS: list[tuple[str, type[Fact]]] = [
    (
        _XLA
        + "INTERNAL: Barrier failed beacuse a task is in error. Barrier Id: a::0. Task: /job:jax_worker/replica:0/task:1 Error: CANCELLED",
        PeerLost,
    ),
    (
        _XLA
        + "INTERNAL: Barrier failed because a task has disconnected. Barrier Id: end::0, Task: /job:jax_worker/replica:0/task:2",
        RanksMissing,
    ),
    (_XLA + "ABORTED: Barrier failed because service is shutting down. Barrier_id: [10]save", PeerLost),
    (_XLA + "INVALID_ARGUMENT: Conflicting tasks specified for the same barrier: a.", CollectiveMismatch),
    (
        _XLA + "INVALID_ARGUMENT: A non-participating task (/job:jax_worker/replica:0/task:3) called the barrier: a",
        CollectiveMismatch,
    ),
    (
        _XLA + "INTERNAL: Barrier a (count: 3) failed. This suggests that the workers are out of sync. Either at least",
        CollectiveTimeout,
    ),
    (_XLA + "INTERNAL: Coordination service has stopped. WaitForAllTasks() failed.", PeerLost),
    (_XLA + "CANCELLED: Coordination service is shutting down. Cancelling GetKeyValue() for key: a", PeerLost),
    (_XLA + "FAILED_PRECONDITION: Agent must be in CONNECTED state. It is currently in state: ERROR", GroupShutDown),
    (
        _XLA
        + "DEADLINE_EXCEEDED: Failed to connect to distributed JAX controller: waited too long for some tasks to show up. This",
        RendezvousTimeout,
    ),
    (
        _XLA + "DEADLINE_EXCEEDED: GetKeyValue() timed out with key: cuda:global_topology/cuda and duration: 5m",
        RendezvousTimeout,
    ),
    (
        _XLA + "INVALID_ARGUMENT: GlobalTopologyProto contains multiple processes with the same process ID",
        DuplicateMember,
    ),
    (_XLA + "UNKNOWN: Failed to start RPC server", PortTaken),
    (
        "ValueError: Please initialize the distributed system via `jax.distributed.initialize()` at the start of your program.",
        ClusterSpecInvalid,
    ),
    ("ValueError: compiling computation that creates 8 shards, but 4 devices were specified", WorldSizeConflict),
    (
        _XLA + "INVALID_ARGUMENT: Out of range device id in device_assignment: 12; valid range: [0, 8)",
        WorldSizeConflict,
    ),
    (
        "AssertionError: Number of devices per slice 4 does not match the product of the ICI parallelism 8",
        WorldSizeConflict,
    ),
    (
        "AssertionError: Unspecified value unable to be determined with the given ICI parallelism values",
        WorldSizeConflict,
    ),
    ("AssertionError: DCN parallelism requested but only one slice available.", WorldSizeConflict),
    (
        "ValueError: device_put's second argument must be a Device or a Sharding which represents addressable devices, but got x",
        UnsupportedCombination,
    ),
    (
        "ValueError: Input and target sharding should have the same set of devices. Got input's device set ids",
        UnsupportedCombination,
    ),
    (
        _XLA + "INVALID_ARGUMENT: Cannot copy array to non-addressable device TPU_9(process=1,(0,1,0,0))",
        UnsupportedCombination,
    ),
    (
        "ValueError: Unable to compute global_shape due to non-uniform sharding. Specify global shape directly.",
        UnevenShards,
    ),
    ("ValueError: Unable to put to devices shape (10, 128) with local device count 4", BatchNotDivisible),
    (_XLA + "INTERNAL: Hash mismatch across replicas for shards 0 and 1", ReplicasDiffer),
    ("ValueError: Incorrect shapes. Got shape (8, 10) logits and (8, 10, 1) targets", ShapeMismatch),
    ("AssertionError: q, k batch dims must match.", ShapeMismatch),
    ("AssertionError: Inconsistent batch-sizes: {8, 4}", ShapeMismatch),
    (
        "TypePromotionError: Input dtypes ('float32', 'key<fry>') have no available implicit dtype promotion path.",
        DtypeMismatch,
    ),
    (
        'ValueError: FAILED_PRECONDITION: Error opening "zarr" driver: Expected "shape" of [512,128] but received: [1024,128]',
        CheckpointMismatch,
    ),
    ("ValueError: Checkpoint and model arrays have different ranks: (8, 128) vs (128,)", CheckpointMismatch),
    (
        "ValueError: Checkpoint path '/data/a' must be a valid directory when using restore mode 'all'.",
        CheckpointUnreadable,
    ),
    ('ValueError: DEADLINE_EXCEEDED: Error writing "gs://bucket/a/0.0": Timed out', SlowStorage),
    ("RuntimeError: Could not initialize backend 'cuda'", CudaMismatch),
    ("RuntimeError: Could not initialize backend 'tpu'", TpuInitFailed),
    (
        _XLA
        + "UNKNOWN: Failed to determine best cudnn convolution algorithm: INTERNAL: All algorithms tried for %cudnn-conv",
        CudaMismatch,
    ),
    ("MPItrampoline: ERROR: The environment variable MPITRAMPOLINE_LIB is not set.", LibraryMissing),
    (
        _XLA
        + "INTERNAL: jaxlib/gpu/solver_handle_pool.cc:37: operation gpusolverDnCreate(&handle) failed: cuSolver internal error",
        DeviceMemoryExhausted,
    ),
    ("Out of memory while trying to allocate 1073741824 bytes.", DeviceMemoryExhausted),
    (_XLA + "INTERNAL: Failed to instantiate CUDA graph: out of memory", DeviceMemoryExhausted),
]


@pytest.mark.parametrize(("text", "kind"), WORDINGS, ids=[text[-40:] for text, _ in WORDINGS])
def test_each_wording_states_its_fact(text: str, kind: type[Fact]) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


def test_the_rank_that_left_a_barrier_is_named() -> None:
    (fact,) = read(
        "JaxRuntimeError: FAILED_PRECONDITION: Barrier failed because a task has disconnected. Barrier Id: end, Task: 2"
    )
    assert isinstance(fact, RanksMissing)
    assert fact.missing == (2,)


@pytest.mark.parametrize(
    "text",
    [
        "I1114 coordination_service_agent.cc:411] Coordination service agent is connected",
        "I1114 coordination_service_agent.cc:600] Coordination agent has successfully shut down.",
        "W1114 conv_algorithm_picker.cc:1077] Failed to determine best cudnn convolution algorithm for: %cudnn-conv",
        "W1114 bfc_allocator.cc:290] ran out of memory. Out of memory while trying to allocate 1.0GiB is not a failure",
        "I1114 ptxas too old. Falling back to the driver to compile.",
        "INFO: all 8 workers called the barrier function",
        "Checkpoint path: /data/run7/1000",
    ],
)
def test_what_healthy_jobs_say_is_not_read(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "RuntimeError: jaxlib/cusolver.cc:51: operation cusolverDnCreate(&handle) failed: cuSolver internal error",
            CudaMismatch,
        ),
        (
            "RuntimeError: jaxlib/gpu/solver_kernels.cc:45: operation gpusolverDnCreate(&handle) failed: cuSolver internal error",
            CudaMismatch,
        ),
        (
            "INTERNAL: CustomCall failed: jaxlib/cusolver_kernels.cc:44: operation cusolverDnCreate(&handle) failed: cuSolver internal error",
            DeviceMemoryExhausted,
        ),
        ("RuntimeError: operation gpublasCreate(&handle) failed: cuBLAS allocation failed", DeviceMemoryExhausted),
        (
            "JaxRuntimeError: FAILED_PRECONDITION: Agent must be in CONNECTED state. It is currently in ERROR.",
            GroupShutDown,
        ),
        ("JaxRuntimeError: FAILED_PRECONDITION: NcclCommunicator aborted", GroupShutDown),
        ("W0818 pjrt_client.cc:1603] WatchTasksAsync failed for task 1: UNAVAILABLE: failed to connect", PeerLost),
        ("E0818 hang_watchdog.cc:85] jit_train_step execution failed to finish in 30m.", CollectiveTimeout),
        (
            "UNKNOWN: MPI: Communicator requested from a thread that is not the one MPI was initialized from. Multiple",
            ForkOrThread,
        ),
        (
            "INVALID_ARGUMENT: GPU clique devices=[0,1] requested from different device groups: [[0,1]] vs [[0,1,2,3]]",
            CollectiveMismatch,
        ),
        (
            "INVALID_ARGUMENT: Either all of or none of the local topologies should explicitly set slice_index",
            ClusterSpecInvalid,
        ),
        ("INTERNAL: Cluster registration failed with error: DEADLINE_EXCEEDED: timed out", RendezvousTimeout),
    ],
)
def test_a_wording_of_the_runtime_states_its_fact(text: str, kind: type[Fact]) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


def test_a_job_that_is_only_late_is_not_read() -> None:
    assert read("INFO: 3 of 200 downloads failed to finish in time") == []
