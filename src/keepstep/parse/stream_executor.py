# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's and XLA's layer over GPUs (StreamExecutor): devices, libraries and ptxas that failed it.

Names of CUDA's errors that other frameworks print too are in ``cuda``, code that a driver does not take in ``device_code``.
"""

from __future__ import annotations

from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.sync import ForkOrThread
from keepstep.parse.signature import signature

SIGNATURES = (
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
        anchors=(
            "CUDA_ERROR_HARDWARE_STACK_ERROR",
            "CUDA_ERROR_INVALID_ADDRESS_SPACE",
            "CUDA_ERROR_TENSOR_MEMORY_LEAK",
            "CUDA_ERROR_EXTERNAL_DEVICE",
        ),
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
        what="the ptxas that was found has a bug that XLA refuses",
        anchors=("has a bug that we think can affect XLA",),
    ),
    signature(
        r"ptxas returned an error during compilation of ptx to sass(?![^\n]{0,300}No space left)",
        CudaMismatch,
        what="ptxas does not take XLA's code: it is of another version, or does not know the GPU",
    ),
    signature(
        r"error before creating cudnn handle \(\d{1,4}\): cudaError"
        r"(?:SymbolNotFound|InsufficientDriver|NoKernelImageForDevice|SystemDriverMismatch|CompatNotSupportedOnDevice)\b",
        CudaMismatch,
        what="CUDA's libraries are of another version than the driver",
        anchors=("error before creating cudnn handle",),
    ),
    signature(
        r"Check failed: CUDA_SUCCESS == cu\w{1,60}\([^\n]{0,200}\) \(0 vs\. (?:30[0-4]|803|804)\)",
        CudaMismatch,
        what="the driver's library lacks a function that TensorFlow calls",
        anchors=("Check failed: CUDA_SUCCESS == cu",),
    ),
    signature(
        r"Check failed: CUDA_SUCCESS == cu\w{1,60}\([^\n]{0,200}\) \(0 vs\. 3\)",
        ForkOrThread,
        what="CUDA used in a forked process",
        anchors=("Check failed: CUDA_SUCCESS == cu",),
    ),
)
