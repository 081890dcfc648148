# SPDX-License-Identifier: Apache-2.0
"""ROCm: HSA, HIP, rocBLAS and the amdgpu driver."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import DeviceShared
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.platform import DeviceFault, PeerAccessFault
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.parse.tools.other_devices import rocm

SAID = [
    (
        "Memory access fault by GPU node-1 (Agent handle: 0x561401550ed0) on address 0x7f8942626000. Reason: Page not present.",
        DeviceFault,
        {"device": "GPU node 1", "hardware": False},
    ),
    (
        "HW Exception by GPU node-4 (Agent handle: 0x7f) reason :GPU Hang",
        DeviceFault,
        {"what": "hardware exception: GPU Hang"},
    ),
    (
        "Queue 0x7f aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory",
        DeviceFault,
        {"hardware": False},
    ),
    (
        "aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: lack of required resources.",
        DeviceMemoryExhausted,
        {"fatal": False},
    ),
    ("  what():  No device code available for function: _ZN10tensorflow7functor28Fill", CudaMismatch, {}),
    ("  what():  Missing metadata for __global__ function: _ZN5Eigen8internal15EigenMetaKernel", CudaMismatch, {}),
    ('"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"', CudaMismatch, {}),
    ("RuntimeError: HIP failure: hipErrorInvalidDevice", DeviceShared, {}),
    ("rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal seek", CudaMismatch, {}),
    (
        "amdgpu 0000:c5:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=2662395, emitted seq=2662397",
        DeviceFault,
        {"what": "ring gfx_0.0.0 timed out", "hardware": True},
    ),
    (
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=16060, emitted seq=16062",
        DeviceFault,
        {"what": "ring sdma0 timed out"},
    ),
    ("amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!", DeviceFault, {"what": "the GPU was reset"}),
    (
        "amdgpu 0000:03:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3)",
        DeviceFault,
        {"hardware": False},
    ),
    ("amdgpu: XGMI: link 3 training failed", PeerAccessFault, {}),
]

HARMLESS = [
    "amdgpu 0000:0a:00.0: amdgpu: ring gfx timeout, but soft recovered",
    "amdgpu 0000:c1:00.0: amdgpu: ring comp_1.1.1 uses VM inv eng 9 on hub 0",
    "MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx90a68.kdb",
    "hipGetDevice: Returned hipSuccess",
]


@pytest.mark.parametrize("text, kind, fields", SAID)
def test_the_words_give_the_fact(text, kind, fields, read, holds):
    assert holds(read(rocm, text), kind, **fields)


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_words_give_nothing(text, read):
    assert read(rocm, text) == []
