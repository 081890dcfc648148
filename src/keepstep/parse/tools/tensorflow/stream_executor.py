# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's and XLA's layer over GPUs (StreamExecutor): devices, libraries and ptxas that failed it.

CUDA error names that other frameworks print too are in ``cuda/errors``, code that a driver rejects in
``cuda/device_code``.
"""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # printed where cuDNN's handle could not be made with CUDNN_STATUS_NOT_INITIALIZED
    signature(
        r"(?:cuda|rocm)_dnn\.cc:\d+\] [Pp]ossibly insufficient driver version: (?P<driver>[\d.]+)",
        lambda m: CudaMismatch(what=f"cuDNN could not start with the driver {m['driver']}, which is too old for it"),
    ),
    # gpu_device.cc and statusor.cc, when devices are set up
    signature(
        r"(?:(?:cuda|hip)[GS]etDevice\(\)(?: on GPU:\d+)?|(?:CUDA|ROCm) runtime implicit initialization on GPU:\d+) failed\. Status: "
        r"(?P<status>unknown error|no (?:CUDA|ROCm)-capable device is detected|unrecognized error code|API call is not supported in the"
        r" installed CUDA driver|unsupported display driver|CUDA_ERROR_UNKNOWN|PTX JIT compiler|the provided PTX|system not yet)",
        lambda m: CudaMismatch(what=f"the CUDA runtime could not be started on a GPU: {m['status']}"),
    ),
    # XLA goes on with the driver's compiler, which fails where it is as old
    signature(
        r"Falling back to the CUDA driver for PTX compilation; ptxas does not support CC (?P<cc>[\d.]{3,6})",
        lambda m: CudaMismatch(what=f"ptxas is too old for a GPU of compute capability {m['cc']}", fatal=False),
    ),
    signature(
        r"failed to create cu(?:blas|BLAS) handle: the resource allocation failed",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(
        r"InternalError: +Attempting to perform (?:BLAS|DNN) operation using StreamExecutor without (?:BLAS|DNN) support",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
)
