# SPDX-License-Identifier: Apache-2.0
"""Lines that PyTorch jobs end with, in the words of one of many tables."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("table", "line", "kind", "fields"),
    [
        (
            "network.gloo",
            "[enforce fail at gloo/transport/tcp/address.cc:80] ss1.ss_family == ss2.ss_family. 2 vs 10",
            "AddressMisled",
            {},
        ),
        ("torch.data", "RuntimeError: Rank 3 exhausted all inputs.", "UnevenShards", {"rank": 3}),
        ("torch.elastic", "RuntimeError: on node-1, port: 29500 already in use", "PortTaken", {"port": 29500}),
        (
            "programs.cluster_variables",
            "AssertionError: device 3 is not visible (CUDA_VISIBLE_DEVICES=0,1).",
            "DeviceShared",
            {},
        ),
        (
            "python.forking",
            "Terminating: fork() called from a process already using GNU OpenMP, this is unsafe.",
            "ForkOrThread",
            {},
        ),
        (
            "nccl.messages",
            "Message truncated : this may be caused by a collective mismatch around rank 1",
            "CollectiveMismatch",
            {"other_rank": 1},
        ),
        (
            "nccl.messages",
            "NCCL WARN Socket creation failed : Address family not supported by protocol",
            "InterfaceMissing",
            {},
        ),
        (
            "nccl.messages",
            "n1:3:3 [0] NCCL INFO Broadcast: opCount 1f sendbuff 0x7f8 recvbuff 0x7f8 count 53 datatype 4 op 0 root 0 comm 0x7f88e005a260 [nranks=8] stream 0x55",
            "CollectiveCalled",
            {"op": "Broadcast", "number": "1f", "count": 53, "dtype": "4", "comm": "0x7f88e005a260", "size": 8},
        ),
        (
            "cuda.errors",
            "Unable to determine the device handle for GPU 0000:03:00.0: GPU is lost.  Reboot the system",
            "DeviceFault",
            {},
        ),
        (
            "cuda.libraries",
            "UserWarning: Attempted to get default timeout for nccl backend, but NCCL support is not compiled",
            "CudaMismatch",
            {"what": "this PyTorch was built without NCCL"},
        ),
        ("system.memory", "RuntimeError: Could not allocate bytes object!", "HostAllocationFailed", {}),
        ("programs.checkpoints", "    assert metadata is not None", "CheckpointUnreadable", {}),
        (
            "trainers.composer",
            "RuntimeError: The world_size(8) > 1, but the distributed package is not available or has not been initialized.",
            "RankVariableMissing",
            {},
        ),
        (
            "trainers.composer",
            "Torch distributed is initialized but environment variable NODE_RANK is not set.",
            "RankVariableMissing",
            {"name": "NODE_RANK"},
        ),
        (
            "trainers.composer",
            "Torch distributed has been initialized with a value of 8 for world size, but environment variable WORLD_SIZE has value 4.",
            "WorldSizeConflict",
            {"seen": "8", "expected": "4"},
        ),
        (
            "trainers.composer",
            "ValueError: world_size(4) cannot be less than nproc(8)",
            "WorldSizeConflict",
            {"seen": "8", "expected": "4"},
        ),
        (
            "trainers.composer",
            "ValueError: In a multi-node environment, master_addr is required.",
            "ClusterSpecInvalid",
            {},
        ),
        (
            "trainers.composer",
            "node_rank not provided, but unable to infer from base_rank since nodes appear to",
            "ClusterSpecInvalid",
            {},
        ),
        (
            "nccl.messages",
            "CtranIpc.cc:588 -> commUnhandledCudaError   (importShareableHandle, isFabric=true)",
            "PeerAccessFault",
            {},
        ),
        ("programs.checkpoints", "AssertionError: metadata is None", "CheckpointUnreadable", {}),
        (
            "python.imports",
            'ModuleNotFoundError: A compatible nvidia-resiliency-ext installation is required for async_strategy="nvrx".',
            "LibraryMissing",
            {},
        ),
        (
            "python.imports",
            "ImportError: DeepSpeed requires the `deepspeed` package: pip install deepspeed",
            "LibraryMissing",
            {"name": "deepspeed"},
        ),
        (
            "trainers.composer",
            "Cannot initialize processes for node with base_rank(8) and nproc(8) because",
            "ClusterSpecInvalid",
            {},
        ),
    ],
)
def test_says(table, line, kind, fields):
    facts = [
        fact
        for each in import_module(f"keepstep.parse.tools.{table}").SIGNATURES
        if (fact := each.read(line)) is not None
    ]
    assert any(type(f).__name__ == kind and all(getattr(f, k) == v for k, v in fields.items()) for f in facts), facts
