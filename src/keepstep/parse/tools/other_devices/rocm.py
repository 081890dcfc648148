# SPDX-License-Identifier: Apache-2.0
"""AMD's ROCm: the HSA runtime, HIP errors by name, rocBLAS and MIOpen, and the amdgpu driver in the kernel log."""

from __future__ import annotations

from keepstep.model.facts.config import DeviceShared
from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.platform import DeviceFault, PeerAccessFault
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

_NO_KERNELS = "the build holds no kernels for this GPU's architecture"

_RUNTIME = (
    signature(
        r"Memory access fault by GPU node-(?P<device>\d+)[^\n]{0,80}? on address",
        lambda m: DeviceFault(
            what="a kernel accessed memory that it must not", device=f"GPU node {m['device']}", hardware=False
        ),
    ),
    signature(
        r"HW Exception by GPU node-(?P<device>\d+)[^\n]{0,80}? reason ?: ?(?P<what>[^\n]{1,60})",
        lambda m: DeviceFault(what=f"hardware exception: {m['what'].strip()}", device=f"GPU node {m['device']}"),
    ),
    signature(
        r"(?:HSA_STATUS_ERROR_(?:MEMORY_APERTURE_VIOLATION|ILLEGAL_INSTRUCTION|MEMORY_FAULT|INVALID_ISA))",
        DeviceFault,
        what="a kernel accessed memory that it must not",
        hardware=False,
    ),
    signature(r"HSA_STATUS_ERROR_EXCEPTION", DeviceFault, what="hardware exception in a kernel", hardware=False),
    signature(r"HSA_STATUS_ERROR_OUT_OF_RESOURCES[^\n]{0,200}", DeviceMemoryExhausted, fatal=False),
    signature(
        r"HSA_STATUS_ERROR_FATAL|HSA_STATUS_ERROR_INVALID_AGENT", DeviceFault, what="the HSA runtime lost the GPU"
    ),
    signature(
        r"hipErrorNoBinaryForGpu|hipErrorInvalidDeviceFunction|hipErrorInvalidKernelFile"
        r"|No device code available for function: _Z|Missing metadata for __global__ function: _Z",
        CudaMismatch,
        what=_NO_KERNELS,
    ),
    signature(r"hipErrorInvalidDevice\b", DeviceShared),
    signature(r"hipErrorOutOfMemory|hipErrorMemoryAllocation", DeviceMemoryExhausted),
    # the runtime's own log (AMD_LOG_LEVEL=1)
    signature(
        r"Allocation failed : Device memory : required :(?P<requested>\d+) \| free :\d+|Video memory allocation failed!",
        DeviceMemoryExhausted,
    ),
    signature(
        r"hipError(?:IllegalAddress|LaunchFailure|IllegalState)",
        DeviceFault,
        what="a kernel accessed memory that it must not",
        hardware=False,
    ),
    signature(r"hipErrorECCNotCorrectable", DeviceFault, what="uncorrectable ECC error"),
    signature(r"hipErrorNoDevice\b", CudaMismatch, what="no GPU is visible to this process"),
    signature(r"hipErrorInsufficientDriver", CudaMismatch, what="the driver is older than the HIP runtime needs"),
    signature(
        r"hipErrorPeerAccess(?:Unsupported|NotEnabled)",
        PeerAccessFault,
        what="peer access between GPUs is not supported",
    ),
    signature(
        r"rocBLAS error: (?:Cannot read [^\n]{0,120}TensileLibrary|Could not initialize Tensile|[^\n]{0,80}No such file)",
        CudaMismatch,
        what=_NO_KERNELS,
    ),
    signature(
        r"(?:Unable to find code object for all current devices|Cannot find Symbol with name: )",
        CudaMismatch,
        what=_NO_KERNELS,
    ),
    signature(
        r"Unable to open /dev/kfd(?: read-write)?: (?:Permission denied|No such file)",
        CudaMismatch,
        what="this process may not open the GPU's device file /dev/kfd",
    ),
    signature(r"ROCk module is NOT loaded", CudaMismatch, what="the amdgpu driver is not loaded"),
)

_DRIVER = (
    signature(
        r"amdgpu[^\n]{0,80}\bring (?P<device>\S{1,40}) timeout, (?:but soft recovered|signaled seq)",
        lambda m: None if "soft recovered" in m.group(0) else DeviceFault(what=f"ring {m['device']} timed out"),
    ),
    signature(r"amdgpu[^\n]{0,60}GPU reset begin!", DeviceFault, what="the GPU was reset"),
    signature(
        r"amdgpu[^\n]{0,80}(?:MES failed to respon|MES might be in unrecoverable state)",
        DeviceFault,
        what="the GPU's scheduler does not answer",
    ),
    signature(
        r"amdgpu[^\n]{0,80}(?<!no )(?:[Uu]ncorrectable hardware errors? (?:detected|\(ERREVENT)|uncorrectable error|RAS poison|VRAM is lost)",
        DeviceFault,
        what="uncorrectable memory error",
    ),
    signature(
        r"amdgpu[^\n]{0,60}\[gfxhub\d?\] (?:no-retry )?(?:retry )?page fault",
        DeviceFault,
        what="GPU memory page fault",
        hardware=False,
    ),
    signature(
        r"amdgpu[^\n]{0,80}(?:XGMI[^\n]{0,60}(?:fail|error)|xgmi[^\n]{0,60}(?:fail|error))",
        PeerAccessFault,
        what="a link between GPUs (xGMI) failed",
    ),
)

SIGNATURES = _RUNTIME + _DRIVER
