# SPDX-License-Identifier: Apache-2.0
"""Device memory that ran out."""

from __future__ import annotations

import pytest

from keepstep.core.facts.resource import DeviceMemoryExhausted, HostAllocationFailed
from keepstep.parse.tools.cuda import device_memory as table

WORDINGS = [
    (
        "E1103 18:23:55.1 3413767 gpu_cudamallocasync_allocator.cc:361] gpu_async_1 cuMemAllocAsync failed to allocate 1225195446464 bytes",
        DeviceMemoryExhausted,
        {"requested": "1225195446464 bytes", "fatal": True},
    ),
    (
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 13.00 GiB already allocated)",
        DeviceMemoryExhausted,
        {"requested": "2.00 GiB", "device": "GPU 0", "capacity": "15.78 GiB", "fatal": True},
    ),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacity of 79.15 GiB",
        DeviceMemoryExhausted,
        {"requested": "20.00 MiB", "device": "GPU 1"},
    ),
    (
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 5; 60.97 GiB total capacity; 57.00 GiB already allocated)",
        DeviceMemoryExhausted,
        {"requested": "2.00 GiB"},
    ),
    (
        "RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58",
        DeviceMemoryExhausted,
        {"fatal": True},
    ),
    ("  what():  CUDA error: out of memory", DeviceMemoryExhausted, {"fatal": True}),
    (
        "Check failed: cusolverDnCreate(&h) == 0 Failed to create cuSolverDN instance.",
        DeviceMemoryExhausted,
        {"fatal": False},
    ),
    ("n:1:2 [0] init.cc:1 NCCL WARN Cuda failure 2 'out of memory'", DeviceMemoryExhausted, {"fatal": True}),
    (
        "OOM when allocating tensor with shape[64,512] and type float on /job:localhost/device:GPU:1 by allocator GPU_1_bfc",
        DeviceMemoryExhausted,
        {"device": "GPU:1"},
    ),
    (
        "OOM when allocating tensor with shape[64,512] and type float on /job:localhost/device:CPU:0 by allocator cpu",
        HostAllocationFailed,
        {},
    ),
    (
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        DeviceMemoryExhausted,
        {"requested": "17179869184 bytes"},
    ),
    (
        "failed to allocate 10.92G (11725330944 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        DeviceMemoryExhausted,
        {"fatal": False},
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        DeviceMemoryExhausted,
        {"fatal": False},
    ),
    (
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 123456 bytes.",
        HostAllocationFailed,
        {"requested": "123456 bytes"},
    ),
    (
        "RuntimeError: :0: cudaFuncSetAttribute(kernel_entry, cudaFuncAttributeMaxDynamicSharedMemorySize, 4): out of memory",
        DeviceMemoryExhausted,
        {},
    ),
    (
        "conv_ops.cc:671] Check failed: stream->parent()->GetConvolveAlgorithms(&algorithms) ",
        DeviceMemoryExhausted,
        {"fatal": False},
    ),
    ("HorovodInternalError: GPU Error:out of memory", DeviceMemoryExhausted, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "W bfc_allocator.cc:219] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.13GiB. The caller indicates that this is not a failure",
        "Per-GPU memory: 14.2 GiB of 15.8 GiB in use",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
