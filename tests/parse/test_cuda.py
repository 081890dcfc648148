# SPDX-License-Identifier: Apache-2.0
"""What the CUDA runtime, driver and libraries say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.data import LabelOutOfRange
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.platform import DeviceFault, PeerAccessFault
from keepstep.core.facts.resource import Contention, DeviceMemoryExhausted, HostAllocationFailed
from keepstep.parse import cuda as table

WORDINGS = [
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
        "RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58",
        DeviceMemoryExhausted,
        {"fatal": True},
    ),
    ("  what():  CUDA error: out of memory", DeviceMemoryExhausted, {"fatal": True}),
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
        "Cuda failure common.cu:891 'CUDA driver version is insufficient for CUDA runtime version'",
        CudaMismatch,
        {"fatal": True},
    ),
    (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        CudaMismatch,
        {"fatal": True},
    ),
    ("Cuda failure 802 'system not yet initialized'", CudaMismatch, {"fatal": True}),
    ("AssertionError: Torch not compiled with CUDA enabled", CudaMismatch, {"fatal": True}),
    ("Failed to initialize NVML: Driver/library version mismatch", CudaMismatch, {"fatal": True}),
    (
        "x.py:52: UserWarning: CUDA initialization: Found no NVIDIA driver on your system. Please check",
        CudaMismatch,
        {"fatal": False},
    ),
    (
        "Loaded runtime CuDNN library: 7.1.2 but source was compiled with: 7.6.0.",
        CudaMismatch,
        {"fatal": True},
    ),
    ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", Contention, {}),
    ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", Contention, {}),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", DeviceFault, {"hardware": True}),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", DeviceFault, {"hardware": False}),
    (
        "Loss.cu:271: nll: block: [0,0,0], thread: [4,0,0] Assertion `t >= 0 && t < n_classes` failed.",
        LabelOutOfRange,
        {"certain": False},
    ),
    (
        "Indexing.cu:1: k: block: [10,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        LabelOutOfRange,
        {"certain": False},
    ),
    (
        "Loss.cu:94: k: block: [0,0,0], thread: [0,0,0] Assertion `input_val >= zero && input_val <= one` failed.",
        DeviceFault,
        {"hardware": False},
    ),
    (
        "NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported between these two devices",
        PeerAccessFault,
        {"fatal": True},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "W bfc_allocator.cc:219] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.13GiB. The caller indicates that this is not a failure",
        "python: malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av))' failed.",
        "Per-GPU memory: 14.2 GiB of 15.8 GiB in use",
        "I tensorflow/core/platform/cpu_feature_guard.cc:142] This TensorFlow binary is optimized to use AVX2 FMA",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
