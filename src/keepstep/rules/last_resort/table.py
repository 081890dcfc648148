# SPDX-License-Identifier: Apache-2.0
"""Which words suggest which cause, for errors that no signature matches.

Used only as a last resort; the answer is always a hypothesis. Weights: 4 and 3 are phrases that hardly ever mean
anything else (4 for the more specific of two that go together, such as a key missing from a checkpoint), 2 is a
strong hint, 1 needs another hint beside it. The words describe the failure, not one tool: they are the same in
PyTorch, TensorFlow, JAX, Horovod, MPI and Ray.
"""

from __future__ import annotations

from functools import cache

from keepstep.knowledge import read_table
from keepstep.rules.api import Cause
from keepstep.rules.last_resort.row import WordRow, row


@cache
def table() -> tuple[WordRow, ...]:
    """The rows of ``knowledge/last_resort.toml``."""
    return tuple(
        row(Cause(each["cause"]), each["name"], **{key: each[key] for key in each if key in ("w4", "w3", "w2", "w1")})
        for each in read_table("last_resort")["row"]
    )


FALLOUT = frozenset(
    {
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.RESOURCE_HOST_OOM_KILLED,
        Cause.PREEMPTION_SIGTERM,
    }
)
"""What other failures leave behind as well: these count only if no other cause is clear."""

BEFORE: dict[Cause, frozenset[Cause]] = {
    Cause.CHECKPOINT_MISMATCH_KEYS_SHAPES: frozenset(
        {Cause.CHECKPOINT_CORRUPT_OR_MISSING, Cause.DATA_SHAPE_MISMATCH, Cause.DATA_DTYPE_MISMATCH}
    ),
    Cause.CHECKPOINT_CORRUPT_OR_MISSING: frozenset({Cause.DATA_CORRUPT_OR_TRUNCATED}),
    Cause.CONFIG_CLUSTER_SPEC: frozenset({Cause.RESOURCE_CONTENTION}),
    Cause.HARDWARE_NIC_FAULT: frozenset({Cause.NETWORK_RDMA_IB}),
    Cause.HARDWARE_NVLINK_PCIE_P2P: frozenset({Cause.HARDWARE_GPU_FAULT_XID_ECC, Cause.ENV_FRAMEWORK_CUDA_MISMATCH}),
    Cause.RESOURCE_HOST_OOM_KILLED: frozenset({Cause.FRAMEWORK_BUG_SEGFAULT, Cause.NETWORK_CONNECTION_RESET_PEER_DIED}),
    Cause.NETWORK_MTU: frozenset({Cause.NETWORK_RDMA_IB}),
    Cause.NETWORK_WRONG_INTERFACE: frozenset({Cause.NETWORK_DNS}),
    Cause.NETWORK_DNS: frozenset({Cause.WORKER_PARAMETER_SERVER_LOST}),
    Cause.SYNC_COLLECTIVE_MISMATCH: frozenset(
        {Cause.NETWORK_RDMA_IB, Cause.DATA_SHAPE_MISMATCH, Cause.DATA_DTYPE_MISMATCH}
    ),
    Cause.CONFIG_WORLD_SIZE_MISMATCH: frozenset({Cause.DATA_SHAPE_MISMATCH}),
    Cause.SERIALIZATION_TOO_LARGE_OR_PROTOBUF: frozenset({Cause.DATA_SHAPE_MISMATCH}),
    Cause.DATA_BATCH_NOT_DIVISIBLE: frozenset({Cause.DATA_SHAPE_MISMATCH, Cause.CONFIG_WORLD_SIZE_MISMATCH}),
    Cause.TPU_DEVICE_BUSY_IN_USE: frozenset({Cause.TPU_INITIALIZATION_FAILURE, Cause.RESOURCE_CONTENTION}),
    Cause.HARDWARE_TPU_UNHEALTHY: frozenset({Cause.TPU_INITIALIZATION_FAILURE}),
    Cause.ENV_MISSING_SHARED_LIBRARY: frozenset({Cause.TPU_INITIALIZATION_FAILURE}),
    Cause.RESOURCE_TPU_HBM_OOM: frozenset({Cause.RESOURCE_GPU_OOM, Cause.TPU_INITIALIZATION_FAILURE}),
    Cause.COMPILE_PROGRAM_LIMIT_EXCEEDED: frozenset(
        {Cause.RESOURCE_GPU_OOM, Cause.RESOURCE_TPU_HBM_OOM, Cause.RESOURCE_SHM}
    ),
    Cause.RESOURCE_SHM: frozenset({Cause.RESOURCE_DISK_FULL, Cause.DATA_LOADER_WORKER_KILLED}),
    Cause.RESOURCE_GPU_OOM: frozenset({Cause.ENV_FRAMEWORK_CUDA_MISMATCH}),
    Cause.ENV_ABI_OR_CPU_INSTRUCTION: frozenset({Cause.ENV_MISSING_SHARED_LIBRARY}),
    Cause.DATA_DTYPE_MISMATCH: frozenset({Cause.FRAMEWORK_UNSUPPORTED_COMBINATION}),
    Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE: frozenset({Cause.FRAMEWORK_UNSUPPORTED_COMBINATION}),
    Cause.ENV_FRAMEWORK_CUDA_MISMATCH: frozenset({Cause.FRAMEWORK_UNSUPPORTED_COMBINATION}),
    Cause.PREEMPTION_SIGTERM: frozenset(
        {Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.NETWORK_TIMEOUT_SLOW}
    ),
    Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK: frozenset({Cause.NETWORK_TIMEOUT_SLOW}),
    Cause.NETWORK_CONNECTION_RESET_PEER_DIED: frozenset({Cause.NETWORK_TIMEOUT_SLOW}),
    Cause.NETWORK_UNREACHABLE_OR_FIREWALL: frozenset({Cause.NETWORK_TIMEOUT_SLOW}),
}
"""Which of two causes wins if both are about as clear: the more specific one."""
