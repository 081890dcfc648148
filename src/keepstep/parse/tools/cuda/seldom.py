# SPDX-License-Identifier: Apache-2.0
"""Errors of the CUDA runtime that are seldom seen, by the words of ``cudaGetErrorString``; the common ones are in ``cuda/errors``.

torch prints them as ``CUDA error: <words>``, torch up to 1.6 as ``cuda runtime error (<number>) : <words>``, NCCL as ``Cuda failure '<words>'``.
"""

from __future__ import annotations

from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.resource import Contention
from keepstep.parse.scan.signature import signature

_SAYS = (
    r"(?:CUDA error: |(?:[Cc]uda|CUDA) failure (?:\S{1,60} )?'|cuda runtime error \(\d+\) ?: |[Ee]rror \d{3}: |cudaError\w{3,60}: |CUDA error\(\d+\),? "
    r"|cudaSuccess \(\d+ vs\. 0\) |Error \(\S{1,80}:\d+\): |error=\d+ ?: )"
)
"""Who prints them: torch, NCCL and nccl-tests, torch up to 1.6, the driver's numbers, CuPy, Paddle, Caffe, gpu-burn."""

SIGNATURES = (
    # Driver and runtime
    signature(
        rf"{_SAYS}system has unsupported display driver / cuda driver combination",
        CudaMismatch,
        what="the CUDA user libraries do not fit the driver",
    ),
    signature(
        rf"{_SAYS}(?:CUDA driver is a stub library|shared object (?:symbol not found|initialization failed))",
        CudaMismatch,
        what="the CUDA libraries that were loaded are not the driver's own",
    ),
    signature(
        rf"{_SAYS}a PTX JIT compilation failed",
        CudaMismatch,
        what="the driver could not compile the code for this GPU",
    ),
    # Multi-process service
    signature(
        rf"{_SAYS}(?:the remote procedural call between the MPS server and the MPS client failed|MPS client terminated by the server"
        r"|the (?:maximum number of MPS clients have|hardware resources required to support device connections have) been reached)",
        Contention,
        what="the service by which processes share a GPU (MPS) failed",
    ),
    signature(
        rf"{_SAYS}exclusive-thread device already in use by a different thread",
        Contention,
        what="the GPU was held by another process or is in exclusive mode",
    ),
    # What a kernel, or a context that is gone, leaves behind
    signature(
        rf"{_SAYS}(?P<what>context is destroyed|invalid device context|driver shutting down|cannot set while device is active in this process"
        r"|too many blocks in cooperative launch|external device error|invalid device symbol|invalid texture reference|invalid pitch argument"
        r"|__global__ function call is not configured|resource already mapped|part or all of the requested memory range is already mapped"
        r"|an exception occurred on the device while exiting a kernel[^\n]{0,40})",
        DeviceFault,
        hardware=False,
    ),
)
