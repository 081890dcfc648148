# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's and XLA's layer over GPUs (StreamExecutor): devices, libraries and ptxas that failed it.

CUDA error names that other frameworks print too are in ``cuda/errors``, code that a driver rejects in
``cuda/device_code``.
"""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch, LibraryMissing
from keepstep.model.facts.platform import DeviceFault
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.model.facts.sync import ForkOrThread
from keepstep.parse.scan.signature import signature

_REFUSED = r"(?:CUDA_ERROR_(?:INVALID|UNSUPPORTED|NO_BINARY|NOT_FOUND|JIT|SHARED_OBJECT)|hipError(?:Invalid|NoBinary|NotFound))\w{0,40}"

SIGNATURES = (
    # printed where cuDNN's handle could not be made with CUDNN_STATUS_NOT_INITIALIZED
    signature(
        r"(?:cuda|rocm)_dnn\.cc:\d+\] [Pp]ossibly insufficient driver version: (?P<driver>[\d.]+)",
        lambda m: CudaMismatch(what=f"cuDNN could not start with the driver {m['driver']}, which is too old for it"),
    ),
    # TensorFlow's own elementwise kernels, of MLIR
    signature(
        rf"'(?:cu|hip)Module(?:LoadData|GetFunction)\w{{0,4}}\([^\n]{{0,80}}\)' failed with '{_REFUSED}'"
        r"|'(?:cu|hipModule)LaunchKernel\([^\n]{0,300}\)' failed with '(?:CUDA_ERROR_INVALID_HANDLE|hipErrorInvalidHandle)'",
        CudaMismatch,
        what="the build holds no kernels that this GPU or driver can load",
    ),
    signature(
        r"(?:Error: +|(?:UNKNOWN|Unknown): |^ *)JIT compilation failed\.(?: *$| \[)",
        CudaMismatch,
        what="TensorFlow could not compile a kernel for this GPU with the CUDA it found",
    ),
    signature(
        r"cuda_driver\.cc:\d+\] failed to load PTX text as a module: CUDA_ERROR_INVALID_PTX",
        CudaMismatch,
        what="the driver cannot compile TensorFlow's kernels for this GPU",
    ),
    # gpu_device.cc and statusor.cc, when devices are set up
    signature(
        r"(?:handling error I(?:nternal|NTERNAL): |Error: )no supported devices found for platform (?:CUDA|ROCM)",
        CudaMismatch,
        what="no supported devices found: this process sees none that this build can use",
    ),
    signature(
        r"(?:(?:cuda|hip)[GS]etDevice\(\)(?: on GPU:\d+)?|(?:CUDA|ROCm) runtime implicit initialization on GPU:\d+) failed\. Status: "
        r"(?P<status>unknown error|no (?:CUDA|ROCm)-capable device is detected|unrecognized error code|API call is not supported in the"
        r" installed CUDA driver|unsupported display driver|CUDA_ERROR_UNKNOWN|PTX JIT compiler|the provided PTX|system not yet)",
        lambda m: CudaMismatch(what=f"the CUDA runtime could not be started on a GPU: {m['status']}"),
    ),
    signature(
        r"(?:cuda[GS]etDevice\(\)(?: on GPU:\d+)?|CUDA runtime implicit initialization on GPU:\d+) failed\. Status: initialization error",
        ForkOrThread,
        what="CUDA used in a forked process",
    ),
    signature(
        r"Ignoring visible gpu device [^\n]{0,300}?(?:The minimum required (?:Cuda|CUDA) capability is|The supported AMDGPU versions are)",
        CudaMismatch,
        what="this build of TensorFlow does not support a GPU this old",
        fatal=False,
    ),
    signature(
        r"CUDA_ERROR_LAUNCH_TIMEOUT|cudaErrorLaunchTimeout",
        DeviceFault,
        what="a kernel ran too long for the display's watchdog",
        hardware=False,
    ),
    signature(
        r"CUDA_ERROR_(?P<what>HARDWARE_STACK_ERROR|INVALID_ADDRESS_SPACE|TENSOR_MEMORY_LEAK|EXTERNAL_DEVICE)\b",
        DeviceFault,
        hardware=False,
    ),
    signature(
        r"could not create miopen handle: miopenStatus\w{1,40}|miopen library could not create a handle"
        r"|failed to create rocBLAS handle: ",
        CudaMismatch,
        what="MIOpen or rocBLAS could not start on this GPU",
    ),
    signature(
        r"ptxas [\d.]{3,12} has a bug that we think can affect XLA",
        CudaMismatch,
        what="the ptxas found has a bug that XLA rejects",
    ),
    signature(
        r"ptxas returned an error during compilation of ptx to sass(?![^\n]{0,300}No space left)",
        CudaMismatch,
        what="ptxas rejected XLA's code: it has another version, or does not know the GPU",
    ),
    # the tools and libraries that XLA compiles with have another version than the GPU or the program needs
    signature(
        r"(?P<what>(?:Linked libnvptxcompiler|Loaded PTX assembler) is too old for \w{3,12}|XLA requires ptxas version [\d.]{2,8} or higher"
        r"|(?:CUDA toolkit|CUB) version mismatch\. Running with version \S{1,20}, but executable requires >= \S{1,20})",
        CudaMismatch,
    ),
    signature(
        r"(?P<what>GPU compute capability of serialized executable doesn't match target device|StreamExecutor cuda device \(\d{1,3}\)"
        r" requires compute capability '?[^'\n]{1,20}'? but is of '?[^'\n]{1,20})",
        CudaMismatch,
    ),
    signature(r"Couldn't find a suitable version of (?P<name>ptxas|nvlink|fatbinary)\b", LibraryMissing),
    # XLA goes on with the driver's compiler, which fails where it is as old
    signature(
        r"Falling back to the CUDA driver for PTX compilation; ptxas does not support CC (?P<cc>[\d.]{3,6})",
        lambda m: CudaMismatch(what=f"ptxas is too old for a GPU of compute capability {m['cc']}", fatal=False),
    ),
    signature(
        r"error before creating cudnn handle \(\d{1,4}\): cudaError"
        r"(?:SymbolNotFound|InsufficientDriver|NoKernelImageForDevice|SystemDriverMismatch|CompatNotSupportedOnDevice)\b",
        CudaMismatch,
        what="CUDA's libraries and the driver have different versions",
    ),
    signature(
        r"Check failed: CUDA_SUCCESS == cu\w{1,60}\([^\n]{0,200}\) \(0 vs\. (?:30[0-4]|803|804)\)",
        CudaMismatch,
        what="the driver's library lacks a function that TensorFlow calls",
    ),
    signature(
        r"Check failed: CUDA_SUCCESS == cu\w{1,60}\([^\n]{0,200}\) \(0 vs\. 3\)",
        ForkOrThread,
        what="CUDA used in a forked process",
    ),
    signature(
        r"failed to create cu(?:blas|BLAS) handle: the resource allocation failed",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(
        r"InternalError: +Attempting to perform (?:BLAS|DNN) operation using StreamExecutor without (?:BLAS|DNN) support",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(r"Error: +(?P<what>No DNN in stream executor)", CudaMismatch),
)
