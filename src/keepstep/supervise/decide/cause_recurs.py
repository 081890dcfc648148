# SPDX-License-Identifier: Apache-2.0
"""Whether a cause comes back at the next attempt: what the policy knows about each cause of the vocabulary. Pure.

A cause in the program, its settings or its data is there at every attempt. One that depends on the moment (a killed
process, a reset connection, a race) may be gone.
"""

from __future__ import annotations

from enum import Enum

from keepstep.model.cause import Cause
from keepstep.model.facts.process import ExceptionRaised
from keepstep.model.finding import Confidence, Finding
from keepstep.signals.passing_errors import is_passing


class Returns(Enum):
    """Whether a cause is there again at the next attempt."""

    SURELY = "surely"
    PERHAPS = "perhaps"
    UNTIL_IT_IS_OVER = "until it is over"
    """It lies outside the run (a busy device, a name server): worth waiting for, even if it looks the same."""
    NOT_FATAL = "not fatal"
    """Nothing to restart for."""


_SURELY = {
    Cause.CONFIG_CLUSTER_SPEC: "the next attempt has the same settings",
    Cause.CONFIG_LOCALHOST_ADDRESS: "the next attempt has the same settings",
    Cause.CONFIG_MISSING_RANK_ENV: "the next attempt has the same settings",
    Cause.CONFIG_WORLD_SIZE_MISMATCH: "the next attempt has the same settings",
    Cause.CONFIG_TRAINS_ALONE: "the script would train alone again",
    Cause.NETWORK_WRONG_INTERFACE: "the same interface would be chosen again",
    Cause.NETWORK_MTU: "the same packets would be lost again",
    Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES: "the next attempt has the same software",
    Cause.ENV_FRAMEWORK_CUDA_MISMATCH: "the next attempt has the same software",
    Cause.ENV_MISSING_SHARED_LIBRARY: "the next attempt has the same software",
    Cause.ENV_ABI_OR_CPU_INSTRUCTION: "the next attempt has the same software",
    Cause.RESOURCE_SHM: "/dev/shm is no larger at the next attempt",
    Cause.RESOURCE_DISK_FULL: "the disk is still full at the next attempt",
    Cause.RESOURCE_FD_OR_PROCESS_LIMIT: "the next attempt has the same limit",
    Cause.RESOURCE_TPU_HBM_OOM: "the same program needs the same memory",
    Cause.DATA_SHAPE_MISMATCH: "the same program gets the same data",
    Cause.DATA_DTYPE_MISMATCH: "the same program gets the same data",
    Cause.DATA_CORRUPT_OR_TRUNCATED: "the file is still damaged at the next attempt",
    Cause.DATA_SHARDING_UNEVEN_OR_EMPTY: "the data would be split the same way again",
    Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE: "the data would end at the same place again",
    Cause.DATA_BATCH_NOT_DIVISIBLE: "the same program gets the same data",
    Cause.DATA_LABEL_OUT_OF_RANGE: "the same program gets the same data",
    Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE: "the program would do the same again",
    Cause.SYNC_COLLECTIVE_MISMATCH: "the ranks would do different things again",
    Cause.SYNC_UNUSED_PARAMETERS: "the program would do the same again",
    Cause.SYNC_REPLICA_DESYNC: "the ranks would build different models again",
    Cause.NUMERIC_WRONG_RESULT: "the same devices and libraries would compute the same",
    Cause.NUMERIC_NAN_OR_DIVERGENCE: "the same weights and data would diverge again",
    Cause.CHECKPOINT_CORRUPT_OR_MISSING: "the script would read the same checkpoint, and there is no older one",
    Cause.CHECKPOINT_MISMATCH_KEYS_SHAPES: "the same model reads the same checkpoint",
    Cause.SERIALIZATION_TOO_LARGE_OR_PROTOBUF: "the message would be just as large",
    Cause.COMPILE_PROGRAM_LIMIT_EXCEEDED: "the same program would be compiled again",
    Cause.FRAMEWORK_UNSUPPORTED_COMBINATION: "this combination never works",
    Cause.USER_CODE_EXCEPTION: "the program would raise the same exception again",
}
_PERHAPS = {
    Cause.NETWORK_PORT_IN_USE: "the next attempt gets ports of its own",
    Cause.NETWORK_CONNECTION_RESET_PEER_DIED: "what ended the peer is unknown and may be over",
    Cause.NETWORK_TIMEOUT_SLOW: "the network may be faster at the next attempt",
    Cause.NETWORK_RDMA_IB: "a link may have been down for a moment",
    Cause.RESOURCE_GPU_OOM: "a new process starts with an empty device",
    Cause.RESOURCE_HOST_OOM_KILLED: "memory may be free at the next attempt",
    Cause.RESOURCE_CONTENTION: "other programs may use less of the machine later",
    Cause.RESOURCE_MEMORY_LEAK: "a new process starts with little memory",
    Cause.DATA_LOADER_WORKER_KILLED: "what killed the data loader's worker may be over",
    Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK: "it may depend on timing",
    Cause.SYNC_MULTIPLE_THREADS_OR_FORK: "it depends on timing",
    Cause.SYNC_RACE_ON_SHARED_STATE: "it depends on timing",
    Cause.CHECKPOINT_SLOW_IO_TIMEOUT: "the storage may be faster at the next attempt",
    Cause.HARDWARE_GPU_FAULT_XID_ECC: "the device fault may be temporary",
    Cause.HARDWARE_NVLINK_PCIE_P2P: "a link may have been down for a moment",
    Cause.HARDWARE_TPU_UNHEALTHY: "the device fault may be temporary",
    Cause.HARDWARE_NIC_FAULT: "a link may have been down for a moment",
    Cause.HARDWARE_MACHINE_FAULT: "the machine fault may be temporary",
    Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH: "all ranks start together at the next attempt",
    Cause.WORKER_PARAMETER_SERVER_LOST: "all ranks start together at the next attempt",
    Cause.PREEMPTION_SIGTERM: "only a part of the run was asked to end",
    Cause.FRAMEWORK_BUG_SEGFAULT: "crashes in native code often depend on timing",
    Cause.USER_NATIVE_CRASH: "crashes in native code often depend on timing",
    Cause.UNKNOWN_NOT_ESTABLISHED: "the cause is unknown and may be over",
}
_OUTSIDE = {
    Cause.NETWORK_UNREACHABLE_OR_FIREWALL: "the network may recover",
    Cause.NETWORK_DNS: "the name server may answer later",
    Cause.TPU_DEVICE_BUSY_IN_USE: "the process that uses the device may end",
    Cause.TPU_INITIALIZATION_FAILURE: "the device may come up later",
}
_NOT_FATAL = {
    Cause.SLOW_STRAGGLER: "it is slow, but it runs",
    Cause.SLOW_INPUT_BOUND: "it is slow, but it runs",
    Cause.SLOW_NETWORK_BOUND: "it is slow, but it runs",
    Cause.SLOW_RECOMPILATION: "it is slow, but it runs",
    Cause.NUMERIC_PLATEAU: "the training continues",
}

KNOWN: dict[Cause, tuple[Returns, str]] = {
    **{cause: (Returns.SURELY, why) for cause, why in _SURELY.items()},
    **{cause: (Returns.PERHAPS, why) for cause, why in _PERHAPS.items()},
    **{cause: (Returns.UNTIL_IT_IS_OVER, why) for cause, why in _OUTSIDE.items()},
    **{cause: (Returns.NOT_FATAL, why) for cause, why in _NOT_FATAL.items()},
}

EVERYWHERE = frozenset(
    ("config", "data", "sync", "numeric", "user", "checkpoint", "serialization", "compile", "framework")
)
"""Families of causes that lie in the program, its settings or its data, not in the machine it runs on."""

_PROGRAM_ERRORS = {
    "ArithmeticError", "AssertionError", "AttributeError", "FileNotFoundError", "ImportError", "IndentationError",
    "IndexError", "IsADirectoryError", "KeyError", "LookupError", "ModuleNotFoundError", "NameError",
    "NotADirectoryError", "NotImplementedError", "PermissionError", "SyntaxError", "TabError", "TypeError",
    "UnboundLocalError", "UnicodeDecodeError", "ValueError", "ZeroDivisionError",
}  # fmt: skip


def returns(finding: Finding, steps: int | None) -> tuple[Returns, str]:
    """Whether this finding's cause comes back, and why we think so. ``steps``: how many the attempt had done."""
    how, why = KNOWN[finding.cause]
    if finding.cause is Cause.USER_CODE_EXCEPTION and (name := _passing(finding)) is not None:
        return Returns.PERHAPS, f"{name} points to a problem outside the program, which may be over"
    if finding.rule == "USR003":  # no exception was seen
        return Returns.PERHAPS, "why the program exited is not known, and may be over"
    if finding.cause is Cause.RESOURCE_GPU_OOM and steps == 0:
        return Returns.SURELY, "the first step would need the same memory again"
    if finding.confidence is Confidence.HYPOTHESIS and (name := _of_the_program(finding)) is not None:
        return Returns.SURELY, f"{name} comes from the program itself, which would do the same again"
    if how is Returns.SURELY and finding.confidence is Confidence.HYPOTHESIS:
        return Returns.PERHAPS, "the cause is too uncertain to give up"
    return how, why


def _of_the_program(finding: Finding) -> str | None:
    """The name of an exception that only the program itself can cause, whatever its message says."""
    for each in finding.evidence:
        if isinstance(each.fact, ExceptionRaised) and not each.fact.logged and each.fact.type in _PROGRAM_ERRORS:
            return each.fact.type
    return None


def _passing(finding: Finding) -> str | None:
    """The name of an exception about a connection, a service or a disk rather than the program."""
    for each in finding.evidence:
        if isinstance(each.fact, ExceptionRaised) and is_passing(each.fact.type, each.fact.message):
            return each.fact.type.rpartition(".")[2]
    return None
