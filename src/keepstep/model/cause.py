# SPDX-License-Identifier: Apache-2.0
"""The public vocabulary of root causes: what a finding may name, and nothing else.

Symptoms (a reset connection, a timed-out collective, a failed child) are not here:
they are facts, to be explained by one of these.
"""

from __future__ import annotations

from enum import Enum


class Cause(Enum):
    """One root cause; the value is the public ``family.label``."""

    CONFIG_CLUSTER_SPEC = "config.cluster_spec"
    CONFIG_LOCALHOST_ADDRESS = "config.localhost_address"
    CONFIG_MISSING_RANK_ENV = "config.missing_rank_env"
    CONFIG_WORLD_SIZE_MISMATCH = "config.world_size_mismatch"
    CONFIG_TRAINS_ALONE = "config.trains_alone"

    NETWORK_UNREACHABLE_OR_FIREWALL = "network.unreachable_or_firewall"
    NETWORK_PORT_IN_USE = "network.port_in_use"
    NETWORK_DNS = "network.dns"
    NETWORK_CONNECTION_RESET_PEER_DIED = "network.connection_reset_peer_died"
    NETWORK_TIMEOUT_SLOW = "network.timeout_slow"
    NETWORK_WRONG_INTERFACE = "network.wrong_interface"
    NETWORK_RDMA_IB = "network.rdma_ib"
    NETWORK_MTU = "network.mtu"

    ENV_VERSION_MISMATCH_BETWEEN_NODES = "env.version_mismatch_between_nodes"
    ENV_FRAMEWORK_CUDA_MISMATCH = "env.framework_cuda_mismatch"
    ENV_MISSING_SHARED_LIBRARY = "env.missing_shared_library"
    ENV_ABI_OR_CPU_INSTRUCTION = "env.abi_or_cpu_instruction"

    RESOURCE_GPU_OOM = "resource.gpu_oom"
    RESOURCE_HOST_OOM_KILLED = "resource.host_oom_killed"
    RESOURCE_SHM = "resource.shm"
    RESOURCE_DISK_FULL = "resource.disk_full"
    RESOURCE_FD_OR_PROCESS_LIMIT = "resource.fd_or_process_limit"
    RESOURCE_TPU_HBM_OOM = "resource.tpu_hbm_oom"
    RESOURCE_CONTENTION = "resource.contention"
    RESOURCE_MEMORY_LEAK = "resource.memory_leak"

    DATA_SHAPE_MISMATCH = "data.shape_mismatch"
    DATA_DTYPE_MISMATCH = "data.dtype_mismatch"
    DATA_CORRUPT_OR_TRUNCATED = "data.corrupt_or_truncated"
    DATA_SHARDING_UNEVEN_OR_EMPTY = "data.sharding_uneven_or_empty"
    DATA_OUT_OF_RANGE_END_OF_SEQUENCE = "data.out_of_range_end_of_sequence"
    DATA_BATCH_NOT_DIVISIBLE = "data.batch_not_divisible"
    DATA_LABEL_OUT_OF_RANGE = "data.label_out_of_range"
    DATA_LOADER_WORKER_KILLED = "data.loader_worker_killed"

    SYNC_COLLECTIVE_MISMATCH = "sync.collective_mismatch"
    SYNC_DEADLOCK_OR_HANG_WAITING_RANK = "sync.deadlock_or_hang_waiting_rank"
    SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE = "sync.variable_outside_strategy_scope"
    SYNC_MULTIPLE_THREADS_OR_FORK = "sync.multiple_threads_or_fork"
    SYNC_UNUSED_PARAMETERS = "sync.unused_parameters"
    SYNC_REPLICA_DESYNC = "sync.replica_desync"
    SYNC_RACE_ON_SHARED_STATE = "sync.race_on_shared_state"

    NUMERIC_NAN_OR_DIVERGENCE = "numeric.nan_or_divergence"
    NUMERIC_PLATEAU = "numeric.plateau"
    NUMERIC_WRONG_RESULT = "numeric.wrong_result"

    SLOW_STRAGGLER = "slow.straggler"
    SLOW_INPUT_BOUND = "slow.input_bound"
    SLOW_NETWORK_BOUND = "slow.network_bound"
    SLOW_RECOMPILATION = "slow.recompilation"

    CHECKPOINT_CORRUPT_OR_MISSING = "checkpoint.corrupt_or_missing"
    CHECKPOINT_MISMATCH_KEYS_SHAPES = "checkpoint.mismatch_keys_shapes"
    CHECKPOINT_SLOW_IO_TIMEOUT = "checkpoint.slow_io_timeout"

    SERIALIZATION_TOO_LARGE_OR_PROTOBUF = "serialization.too_large_or_protobuf"
    COMPILE_PROGRAM_LIMIT_EXCEEDED = "compile.program_limit_exceeded"

    HARDWARE_GPU_FAULT_XID_ECC = "hardware.gpu_fault_xid_ecc"
    HARDWARE_NVLINK_PCIE_P2P = "hardware.nvlink_pcie_p2p"
    HARDWARE_TPU_UNHEALTHY = "hardware.tpu_unhealthy"
    HARDWARE_NIC_FAULT = "hardware.nic_fault"
    HARDWARE_MACHINE_FAULT = "hardware.machine_fault"

    TPU_DEVICE_BUSY_IN_USE = "tpu.device_busy_in_use"
    TPU_INITIALIZATION_FAILURE = "tpu.initialization_failure"

    WORKER_RESTARTED_OR_INCARNATION_MISMATCH = "worker.restarted_or_incarnation_mismatch"
    WORKER_PARAMETER_SERVER_LOST = "worker.parameter_server_lost"

    PREEMPTION_SIGTERM = "preemption.sigterm"

    FRAMEWORK_BUG_SEGFAULT = "framework.bug_segfault"
    FRAMEWORK_UNSUPPORTED_COMBINATION = "framework.unsupported_combination"

    USER_CODE_EXCEPTION = "user.code_exception"
    USER_NATIVE_CRASH = "user.native_crash"

    UNKNOWN_NOT_ESTABLISHED = "unknown.not_established"
    """The honest answer when no rule fits: says which rank failed first, and invents no reason."""

    @property
    def family(self) -> str:
        return self.value.partition(".")[0]

    @property
    def label(self) -> str:
        return self.value.partition(".")[2]


SEEN_BY_OTHER_RANKS = (
    Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    Cause.NETWORK_TIMEOUT_SLOW,
    Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
)
"""What the other ranks show when one fails, whatever the reason: nearly every cause explains these."""
