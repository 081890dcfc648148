# SPDX-License-Identifier: Apache-2.0
"""CUDA, cuDNN and cuBLAS errors, as the runtime, the driver, PyTorch, TensorFlow, JAX and NCCL word them."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import DeviceShared
from keepstep.model.facts.data import LabelOutOfRange
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination, VersionSeen
from keepstep.model.facts.platform import DeviceFault, PeerAccessFault
from keepstep.model.facts.resource import Contention
from keepstep.model.facts.training import NonFinite
from keepstep.parse.scan.signature import signature


def _assert(match: re.Match[str]) -> Fact:
    """A device-side assertion; the index checks of losses and embeddings mean a bad label or token."""
    text = match["text"]
    if _INDEX_CHECK.search(text):
        return LabelOutOfRange(certain=False)
    if _PROBABILITY_CHECK.search(text):
        return NonFinite(what="probabilities")
    return DeviceFault(what=f"a device-side assertion failed: {text}", hardware=False)


_INDEX_CHECK = lazy_pattern(
    r"n_classes|num_classes|srcSelectDimSize|srcIndex|idx_dim|index_size|cur_target|\btarget_?val\b|self_dim_size"
    r"|sizes\[i\]|\bindex (?:>=|<) |indexValue|ind >=? ?0|ind <|padding_idx|num_weights|label|vocab|lookup"
    r"|index out of bounds|indexAtDim|baseSizes|dst(?:Add|Copy|Fill)DimSize|linearIndex|\bidx >= ?0|0 <= tmp\d+|class_values|num_embeddings"
)
# invalid probabilities: binary cross entropy, sampling
_PROBABILITY_CHECK = lazy_pattern(
    r"input_val >= zero && input_val <= one|\*input >= 0\.? && \*input <= 1|\bval >= zero|ge\(val, zero\)|cumdist\[size - 1\] > |sum > accZero"
)

_SAYS = (
    r"(?:CUDA error: |(?:[Cc]uda|CUDA) failure (?:\S{1,60} )?'|cuda runtime error \(\d+\) ?: |[Ee]rror \d{3}: |cudaError\w{3,60}: |CUDA error\(\d+\),? "
    r"|cudaSuccess \(\d+ vs\. 0\) |Error \(\S{1,80}:\d+\): |error=\d+ ?: )"
)
"""Who prints them: torch, NCCL and nccl-tests, torch up to 1.6, the driver's numbers, CuPy, Paddle, Caffe, gpu-burn."""


_MISMATCH = (
    signature(
        r"CUDA driver version is insufficient for CUDA runtime version",
        CudaMismatch,
        what="the driver is older than the CUDA runtime needs",
    ),
    signature(
        r"The NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)",
        lambda m: CudaMismatch(
            what=f"the driver (CUDA version {m['found']}) is older than this PyTorch needs",
            fatal="UserWarning" not in m.string,
        ),
    ),
    signature(
        r"cudaErrorInsufficientDriver|CUDA_ERROR_INSUFFICIENT_DRIVER",
        CudaMismatch,
        what="the driver is older than the CUDA runtime needs",
    ),
    signature(
        r"no kernel image is available for execution on the device",
        CudaMismatch,
        what="the build holds no kernels for this GPU's compute capability",
    ),
    signature(
        r"CUDA_ERROR_NO_BINARY_FOR_GPU|cudaErrorNoKernelImageForDevice",
        CudaMismatch,
        what="the build holds no kernels for this GPU's compute capability",
    ),
    signature(
        r"(?<![\w ()\-])(?P<gpu>[\w ()\-]{3,160}) with CUDA capability sm_(?P<sm>\w+) is not compatible with the current PyTorch",
        lambda m: CudaMismatch(what=f"this PyTorch holds no kernels for sm_{m['sm']}", fatal=False),
    ),
    signature(
        r"CUDA capability sm_\w+\)? (?:and|is) not (?:compatible|supported)",
        CudaMismatch,
        fatal=False,
        what="this build holds no kernels for this GPU",
    ),
    signature(
        r"PyTorch no longer supports this GPU because it is too old",
        CudaMismatch,
        fatal=False,
        what="this PyTorch no longer supports a GPU this old",
    ),
    signature(r"Torch not compiled with CUDA enabled", CudaMismatch, what="this PyTorch was built without CUDA"),
    signature(
        r"module 'torch\._C' has no attribute '_?(?:[Cc]uda|nccl)\w{0,60}'",
        CudaMismatch,
        what="this PyTorch was built without CUDA",
    ),
    signature(
        r"PyTorch (?:was|is) not (?:compiled|linked) with (?:support for )?cuda",
        CudaMismatch,
        what="this PyTorch was built without CUDA",
    ),
    signature(r"is not compiled with (?:GPU|CUDA) support", CudaMismatch, what="an extension was built without CUDA"),
    signature(
        r"[Nn]ot compiled with (?:GPU|CUDA|NCCL|nccl|cuda|gpu) support",
        CudaMismatch,
        what="an extension was built without CUDA",
    ),
    signature(
        r"(?:CUDA error|Status): (?:device kernel image is invalid|PTX JIT compiler library not found)",
        CudaMismatch,
        what="the build's kernels do not fit this driver or GPU",
    ),
    signature(
        r"Error: (?:(?:UNIMPLEMENTED: )?DNN library is not found|cudaGet\w+ symbol not found)|\(\d+\) (?i:unimplemented): +DNN library is not found",
        CudaMismatch,
        what="a CUDA library that this build needs is missing or has the wrong version",
    ),
    signature(
        r"the provided PTX was compiled with an unsupported toolchain",
        CudaMismatch,
        what="the kernels were compiled with a newer CUDA than the driver knows",
    ),
    signature(
        r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION|cudaErrorUnsupportedPtxVersion",
        CudaMismatch,
        what="the kernels were compiled with a newer CUDA than the driver knows",
    ),
    signature(
        r"ptxas (?:[^\s;][^\n;]{0,200}, line \d+; *)?(?:fatal|error)[^\n]{0,40}(?:Unsupported \.version|Value 'sm_\w+' is not defined)",
        CudaMismatch,
        what="ptxas does not know the code or the GPU: it is older than the compiler",
    ),
    signature(r"nvcc fatal\s{0,6}: Unsupported gpu architecture", CudaMismatch, what="nvcc does not know this GPU"),
    signature(
        r"[Ee]rror 80[34]: (?:forward compatibility|system has unsupported display driver)",
        CudaMismatch,
        what="the CUDA user libraries do not fit the driver (forward compatibility)",
    ),
    signature(
        r"(?:CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
        r"|cudaErrorSystemDriverMismatch"
        r"|cudaErrorCompatNotSupportedOnDevice)",
        CudaMismatch,
        what="the CUDA user libraries do not fit the driver",
    ),
    signature(
        r"forward compatibility was attempted on non supported HW",
        CudaMismatch,
        what="CUDA's compatibility libraries were used on a GPU that they do not support",
    ),
    signature(
        r"[Dd]river/library version mismatch",
        CudaMismatch,
        what="the driver's kernel module and its user libraries differ in version",
    ),
    signature(
        r"kernel version [\d.]+ does not match DSO version [\d.]+",
        CudaMismatch,
        what="the driver's kernel module and its user libraries differ in version",
    ),
    signature(
        r"NVIDIA kernel module, version [\d.]+, does not|API mismatch: the client has the version [\d.]+",
        CudaMismatch,
        what="the driver's kernel module and its user libraries differ in version",
    ),
    signature(
        r"(?:[Ee]rror 802: |cuda runtime error \(802\) ?: ?|(?:[Cc]uda|CUDA) failure[^\n']{0,40}'|CUDA error: "
        r"|error=802 ?: |cudaError\w{3,60}: |CUDA error\(802\),? |cudaSuccess \(802 vs\. 0\) |Error \(\S{1,80}:\d+\): )system not yet initialized",
        CudaMismatch,
        what="the fabric manager is not running or does not fit the driver",
    ),
    signature(
        r"CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady",
        CudaMismatch,
        what="the fabric manager is not running or does not fit the driver",
    ),
    signature(
        r"Loaded (?:runtime )?Cu[Dd][Nn][Nn] library: (?P<here>[\d.]+)[^\n]{0,30}but source was compiled with:? (?P<there>[\d.]+)",
        lambda m: CudaMismatch(what=f"cuDNN {m['here']} was loaded but {m['there']} was compiled against"),
    ),
    signature(
        r"cuDNN version incompatibility: PyTorch was compiled\s+against \((?P<there>[^)]{1,20})\) but "
        r"(?:linked against|found runtime version) \((?P<here>[^)]{1,20})\)",
        lambda m: CudaMismatch(what=f"cuDNN {m['here']} was loaded but {m['there']} was compiled against"),
    ),
    signature(
        r"CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH|CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
        CudaMismatch,
        what="cuDNN's parts are of different versions",
    ),
    signature(
        r"CUDNN_STATUS_ARCH_MISMATCH|CUBLAS_STATUS_ARCH_MISMATCH",
        CudaMismatch,
        what="the library holds no kernels for this GPU",
    ),
    signature(
        r"The detected CUDA version \((?P<here>[\d.]+)\) mismatches the version that was used to compile",
        lambda m: CudaMismatch(what=f"CUDA {m['here']} is installed but PyTorch was compiled with another"),
    ),
    signature(
        r"Detected that PyTorch and \w+ were compiled with different CUDA versions",
        CudaMismatch,
        what="PyTorch and an extension were compiled with different CUDA versions",
    ),
    signature(
        r"Installed CUDA version (?P<here>[\d.]+) does not match the version torch was compiled with (?P<there>[\d.]+)",
        lambda m: CudaMismatch(
            what=f"CUDA {m['here']} is installed but PyTorch was compiled with {m['there']}",
            fatal="Exception" in m.string or "Error" in m.string,
        ),
    ),
    signature(
        r"Attempting to (?:deserialize object|use) on a? ?CUDA device but torch\.cuda\.is_available\(\) is False",
        CudaMismatch,
        what="PyTorch sees no usable GPU on this host",
    ),
    signature(
        r"Found no NVIDIA driver on your system",
        lambda m: CudaMismatch(what="there is no NVIDIA driver on this host", fatal="Warning" not in m.string),
    ),
    signature(r"No (?:CUDA|HIP) GPUs are available", CudaMismatch, what="no GPU is visible to this process"),
    signature(
        r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        CudaMismatch,
        what="the NVIDIA driver is not loaded",
    ),
    signature(
        r"Failed to initialize NVML: (?:Unknown Error|ERROR_\w{4,30}|Driver Not Loaded|Insufficient Permissions|GPU access blocked by the operating system|Not Found)",
        CudaMismatch,
        what="the driver is not loaded, or this container has lost its GPUs",
        fatal=False,
    ),
    signature(
        r"CUDA Driver version found is (?P<here>\d+)\. Minimum requirement is (?P<there>\d+)",
        lambda m: CudaMismatch(what=f"the driver knows CUDA {m['here']}, NCCL needs {m['there']}", fatal=False),
    ),
    signature(
        r"The application was compiled with too old version of NCCL",
        CudaMismatch,
        what="the loaded NCCL is newer than the one compiled against",
    ),
    signature(
        r"(?:(?:CUDA|HIP) [Ee]rror|(?:[Cc]uda|CUDA|HIP) failure|cuda runtime error \(\d+\) ?|CUDA initialization)[^\n]{0,120}no"
        r" CUDA-capable device is detected",
        CudaMismatch,
        what="no GPU is visible to this process",
    ),
    signature(
        r"ProcessGroupNCCL is only supported with GPUs, no GPUs found",
        CudaMismatch,
        what="no GPU is visible to this process",
    ),
    signature(
        r"failed call to cuInit: (?P<what>CUDA_ERROR_\w+|UNKNOWN ERROR \(-?\d+\))",
        lambda m: CudaMismatch(what=f"the driver could not be initialised: {m['what']}", fatal=False),
    ),
    signature(
        r"CUDA initialization: (?P<what>(?:Unexpected error|CUDA (?:driver|unknown error))[^\n]{0,80})",
        lambda m: CudaMismatch(what=f"CUDA could not be initialised: {m['what']}", fatal="Warning" not in m.string),
    ),
    signature(
        r"Distributed package doesn't have (?P<what>\w+) built in",
        lambda m: UnsupportedCombination(what=f"the {m['what']} backend, which this build of PyTorch does not have"),
    ),
    signature(
        r"CUDA driver initialization failed, you might not have a CUDA gpu",
        CudaMismatch,
        what="the driver could not be initialised",
    ),
    signature(
        r"CUBLAS_STATUS_(?:INVALID_VALUE|NOT_SUPPORTED) when calling",
        CudaMismatch,
        what="cuBLAS refused the operation: another version was loaded, or the GPU cannot do it",
    ),
    signature(
        r"cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        CudaMismatch,
        what="cuDNN could not be initialised with this driver",
    ),
    signature(
        r"(?:Unsupported NCCL version|NCCL version .{1,12} is (?:too old|incompatible))",
        CudaMismatch,
        what="NCCL does not fit the framework",
    ),
    signature(
        r"NCCL WARN Cuda failure '?(?:named symbol not found|invalid device function|unknown symbol)",
        CudaMismatch,
        what="NCCL's kernels do not fit this GPU or driver",
    ),
    signature(
        r"(?:(?:CUDA|HIP) error|(?:[Cc]uda|CUDA|HIP) failure|CUDA_ERROR)[^\n]{0,60}(?:invalid device function|named symbol not found"
        r"|device function is not found|unrecognized error code)",
        CudaMismatch,
        what="the build's kernels do not fit this GPU or driver",
    ),
    signature(
        r"(?:CUDA error: |[Cc]uda failure (?:\d+ )?')API call is not supported in the installed CUDA driver",
        CudaMismatch,
        what="the installed driver does not support what the CUDA library asked for",
    ),
    signature(
        r"(?:CUDA error: |[Cc]uda failure (?:\d+ )?')operation not supported\b(?! on global)",
        UnsupportedCombination,
        what="an operation that this GPU, or the part of it visible here, does not support",
    ),
    signature(
        r"[Cc]uda failure (?:\d+ )?'initialization error'",
        CudaMismatch,
        what="CUDA could not be initialised in this process",
    ),
    signature(
        r"FlashAttention only supports Ampere GPUs or newer", CudaMismatch, what="the GPU is older than the code needs"
    ),
    signature(
        r"Bfloat16 is only supported on GPUs with compute capability of at least",
        CudaMismatch,
        what="the GPU is older than the code needs",
    ),
    signature(
        r"jaxlib is version [\d.]+, but this version of jax requires version|jaxlib version [\d.]+ is (?:older|newer) than",
        CudaMismatch,
        what="jax and jaxlib do not fit each other",
    ),
    signature(r"failed: (?P<what>The (?:cu[A-Z]\w+|CUPTI|NCCL) library was not found)", CudaMismatch),
    signature(
        r"Error: [A-Z_]{3,30}: (?P<what>Couldn't get (?:ptxas|nvlink) version|Couldn't invoke ptxas)", CudaMismatch
    ),
    signature(
        r"jaxlib version [\d.]+ (?:is newer than and )?(?:is )?(?:in)?compatible with jax",
        CudaMismatch,
        what="jax and jaxlib do not fit each other",
    ),
    signature(
        r"Found (?:cuDNN|cuBLAS|cuSPARSE|cuSOLVER|cuFFT|CUPTI|CUDA) version \d+, but JAX was built against version \d+",
        CudaMismatch,
        what="JAX was built against a newer CUDA library than is installed",
    ),
    signature(
        r"(?P<what>Outdated (?:cu\w+|CUPTI|CUDA\w*|NCCL|NVSHMEM)[\w ]{0,20}installation found)",
        lambda m: CudaMismatch(what=f"{m['what']}: JAX was built against a newer one"),
    ),
    signature(
        r"Unable to load (?P<what>cu\w+|CUPTI|CUDA)\. Is it installed\?",
        lambda m: CudaMismatch(what=f"JAX could not load {m['what']}"),
    ),
    signature(
        rf"{_SAYS}system has unsupported display driver / cuda driver combination",
        CudaMismatch,
        what="the CUDA user libraries do not fit the driver",
    ),
    signature(
        rf"{_SAYS}(?:CUDA driver is a stub library|shared object (?:symbol not found|initialization failed))",
        CudaMismatch,
        what="the loaded CUDA libraries are not the driver's own",
    ),
    signature(
        rf"{_SAYS}a PTX JIT compilation failed", CudaMismatch, what="the driver could not compile the code for this GPU"
    ),
)

_BUSY = (
    signature(
        r"(?:all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy or unavailable",
        Contention,
        what="the GPU was held by another process or is in exclusive mode",
    ),
    signature(
        r"cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE",
        Contention,
        what="the GPU was held by another process or is in exclusive mode",
    ),
    # Multi-process service
    signature(
        rf"{_SAYS}(?:the remote procedural call between the MPS server and the MPS client failed|MPS client terminated by the server"
        r"|the (?:maximum number of MPS clients have|hardware resources required to support device connections have) been reached)",
        Contention,
        what="the service that shares a GPU between processes (MPS) failed",
    ),
    signature(
        rf"{_SAYS}exclusive-thread device already in use by a different thread",
        Contention,
        what="the GPU was held by another process or is in exclusive mode",
    ),
)

_FAULT = (
    signature(r"uncorrectable ECC error encountered", DeviceFault, what="uncorrectable ECC error"),
    signature(r"cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE", DeviceFault, what="uncorrectable ECC error"),
    signature(
        r"Invalid access of peer GPU memory over nvlink",
        DeviceFault,
        what="a peer GPU's memory could not be reached over NVLink",
    ),
    signature(
        r"(?:(?:CUDA|HIP|GPU) [Ee]rror|(?:[Cc]uda|CUDA|HIP) failure|(?:cuda|hip)Error|cuda\w{4,40} failed)[^\n]{0,80}an? (?P<what>illegal memory access was"
        r" encountered)",
        DeviceFault,
        hardware=False,
    ),
    signature(
        r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS|INVALID_PC)|cudaErrorIllegal(?:Address|Instruction)",
        DeviceFault,
        what="illegal memory access",
        hardware=False,
    ),
    signature(
        r"(?:(?:CUDA|HIP) error|(?:[Cc]uda|CUDA|HIP) failure|cuda runtime error)[^\n]{0,80}(?P<what>misaligned address|an"
        r" illegal instruction was encountered"
        r"|invalid program counter|operation not supported on global/shared address space)",
        DeviceFault,
        hardware=False,
    ),
    signature(
        r"(?:(?:CUDA|HIP) error|(?:[Cc]uda|CUDA|HIP) failure|cuda runtime error|CUDA_ERROR_LAUNCH_FAILED)[^\n]{0,80}"
        r"(?P<what>unspecified launch failure)",
        DeviceFault,
        hardware=False,
    ),
    signature(
        r"CUDA_ERROR_LAUNCH_FAILED|cudaErrorLaunchFailure",
        DeviceFault,
        what="unspecified launch failure",
        hardware=False,
    ),
    signature(
        r"(?:CUDA|HIP) error: unknown error|CUDA_ERROR_UNKNOWN: unknown error|cuda runtime error \(30\) ?: unknown error",
        lambda m: None if "cuInit" in m.string else DeviceFault(what="unknown CUDA error", hardware=False),
    ),
    signature(r"[Cc]uda failure (?:999 )?'unknown error'", DeviceFault, what="unknown CUDA error", hardware=False),
    signature(
        r"(?:CUDA|HIP)(?: driver)? error: (?P<what>invalid argument|invalid resource handle|mapping of buffer object failed)",
        DeviceFault,
        hardware=False,
    ),
    signature(
        r"cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", DeviceFault, what="a CUDA library's kernel failed", hardware=False
    ),
    signature(
        r"(?:CUDA|HIP) error: the launch timed out and was terminated",
        DeviceFault,
        what="a kernel ran too long for the display's watchdog",
        hardware=False,
    ),
    signature(r"(?P<what>hardware stack error|Hardware stack error)", DeviceFault, hardware=False),
    signature(
        r"(?:CUDNN_STATUS_EXECUTION_FAILED|CUBLAS_STATUS_EXECUTION_FAILED|CUDNN_STATUS_MAPPING_ERROR"
        r"|CUBLAS_STATUS_INTERNAL_ERROR)",
        DeviceFault,
        what="a CUDA library's kernel failed",
        hardware=False,
    ),
    signature(
        r"block: ?\[[\d, ]+\], thread: ?\[[\d, ]+\][^\n`]{0,20}[Aa]ssertion [`'](?P<text>[^`\n]{1,300}?)['`] failed",
        _assert,
    ),
    signature(r"Device-side assertion `(?P<text>[^`\n]{1,300}?)' failed", _assert),
    signature(r"device-side assert triggered", LabelOutOfRange, certain=False),
    signature(r"CUDA_ERROR_ASSERT|cudaErrorAssert\b", LabelOutOfRange, certain=False),
    signature(r"NVML_ERROR_GPU_IS_LOST|\bGPU is lost\b", DeviceFault, what="the GPU is lost"),
    signature(
        r"Unable to determine the device handle for GPU ?(?P<device>[\w:.]+)",
        DeviceFault,
        what="the GPU no longer answers",
    ),
    signature(
        r"CUDA_ERROR_CONTAINED|cudaErrorContained|CUDA error: Invalid access of peer GPU memory|uncontained (?:memory )?error",
        DeviceFault,
        what="the GPU reported a memory error",
    ),
    signature(
        rf"{_SAYS}(?P<what>context is destroyed|invalid device context|driver shutting down|cannot set while device is active in this process"
        r"|too many blocks in cooperative launch|external device error|invalid device symbol|invalid texture reference|invalid pitch argument"
        r"|__global__ function call is not configured|resource already mapped|part or all of the requested memory range is already mapped"
        r"|an exception occurred on the device while exiting a kernel[^\n]{0,40})",
        DeviceFault,
        hardware=False,
    ),
)

_ORDINAL = (
    signature(
        r"(?:HIP error|(?:[Cc]uda|CUDA|HIP) failure|cuda runtime error \(101\) ?|error=10\d? ?)[^\n]{0,60}invalid device ordinal",
        DeviceShared,
    ),
    signature(r"local_rank (?P<rank>\d+) exceeds available GPUs in CUDA_VISIBLE_DEVICES=(?P<device>\S*)", DeviceShared),
    signature(
        r"device_id (?P<device>\S+) is out of range\. Please use a device index less than the number of accelerators",
        DeviceShared,
    ),
    signature(r"\w+ : \w+ allocated on device (?P<device>\d+) mismatchs? with NCCL device \d+", DeviceShared),
)

_PEER = (
    signature(
        r"peer access is not supported between these two devices", PeerAccessFault, what="peer access is not supported"
    ),
    signature(
        r"(?:(?:CUDA|HIP) error|(?:[Cc]uda|CUDA|HIP) failure)[^\n]{0,60}(?:peer mapping resources exhausted|peer access (?:has"
        r" not been enabled|is already enabled))",
        PeerAccessFault,
        what="peer access could not be set up",
    ),
    signature(
        r"NCCL WARN[^\n]{0,80}(?:failed to (?:peer with device|open CUDA IPC handle)|Cuda(?:Ipc|IPC))",
        PeerAccessFault,
        what="NCCL could not set up peer access",
    ),
    signature(
        r"(?:cudaIpc(?:Open|Get)MemHandle|Could not map peer memory)[^\n]{0,60}(?:fail|error|invalid)",
        PeerAccessFault,
        what="device memory could not be shared between processes",
    ),
    signature(
        r"CUDA_ERROR_NVLINK_UNCORRECTABLE|cudaErrorNvlinkUncorrectable|uncorrectable NVLink error detected",
        PeerAccessFault,
        what="uncorrectable NVLink error",
    ),
    signature(
        r"failed to enable peer access from",
        lambda m: PeerAccessFault(
            what="peer access could not be enabled",
            fatal="Error: " in m.string and "Unable to enable peer access" not in m.string,
        ),
    ),
    signature(
        r"NCCL WARN[^\n]{0,60}NVLS? [^\n]{0,60}(?:fail|error)|Failed to bind NVLink SHARP",
        PeerAccessFault,
        what="NVLink SHARP could not be set up",
    ),
    signature(
        r"[Ff]abric ?[Mm]anager[^\n]{0,80}(?:not running|failed|error|mismatch)",
        PeerAccessFault,
        what="the fabric manager of the NVSwitches does not work",
    ),
)

_VERSIONS = (
    signature(r"NVIDIA-SMI [\d.]+ +Driver Version: (?P<version>[\d.]+)", VersionSeen, component="NVIDIA driver"),
)

SIGNATURES = _MISMATCH + _BUSY + _FAULT + _ORDINAL + _PEER + _VERSIONS
