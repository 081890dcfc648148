# SPDX-License-Identifier: Apache-2.0
"""CUDA errors reported by others: cuBLAS, cuSOLVER, cuFFT, cuSPARSE, NVRTC, THC of torch 0.x to 1.6, Triton, graphs.

What the runtime says under ``CUDA error: ...`` is in ``cuda/errors``; cuBLAS and cuDNN status names are there too.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.model.facts.platform import DeviceFault
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

_FAILED_ON_IT = "cuBLAS has no program for this GPU, or it failed on it"


def _with_free_memory(match: re.Match[str]) -> Fact | None:
    """cuDNN's handle could not be created: for lack of memory only where little was left."""
    if int(match["free"]) * 2 < int(match["total"]):
        return None
    return CudaMismatch(what="cuDNN did not start, though most of the device's memory was free")


_THC = (
    signature(
        r"cuda_dnn\.cc:\d+\] Memory usage: (?P<free>\d+) bytes free, (?P<total>\d+) bytes total", _with_free_memory
    ),
    signature(
        r"cublas runtime error ?: (?:the GPU program failed to execute|an absent device architectural feature is required)",
        CudaMismatch,
        what=_FAILED_ON_IT,
    ),
    # the same from TensorFlow: usually a GPU that is newer than the build's CUDA
    signature(
        r"failed to run cuBLAS routine[ \w]{0,40}: CUBLAS_STATUS_(?:EXECUTION_FAILED|ARCH_MISMATCH|NOT_SUPPORTED)",
        CudaMismatch,
        what=_FAILED_ON_IT,
    ),
    signature(
        r"cublas runtime error ?: (?:library not initialized|resource allocation failed)",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(
        r"cublas runtime error ?: (?P<what>an internal operation failed|an access to GPU memory space failed|unknown error)",
        DeviceFault,
        hardware=False,
    ),
    signature(
        r"cuda runtime error \((?:8|62|98)\) ?: invalid device function|CUDA error: invalid device function",
        CudaMismatch,
        what="the binary holds no code for this GPU's architecture",
    ),
    signature(
        r"cuda runtime error \(\d+\) ?: (?:an )?(?P<what>illegal memory access was encountered|invalid argument"
        r"|invalid configuration argument|invalid resource handle|unspecified driver error)",
        DeviceFault,
        hardware=False,
    ),
)

_LIBRARIES = (
    signature(
        r"RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
        CudaMismatch,
        what="CUDA did not start: something is wrong with the driver, its devices or CUDA_VISIBLE_DEVICES",
    ),
    signature(
        r"cuFFT error: CUFFT_INTERNAL_ERROR|cuFFT error: CUFFT_SETUP_FAILED",
        CudaMismatch,
        what="cuFFT does not work on this GPU or driver",
    ),
    signature(
        r"(?:cusolver|cuSOLVER) error: CUSOLVER_STATUS_(?:NOT_INITIALIZED|ARCH_MISMATCH)",
        CudaMismatch,
        what="cuSOLVER could not start",
    ),
    signature(
        r"(?P<what>(?:cusolver|cuSOLVER) error: CUSOLVER_STATUS_(?:INTERNAL_ERROR|EXECUTION_FAILED)"
        r"|cuFFT error: CUFFT_EXEC_FAILED|CUSPARSE_STATUS_(?:INTERNAL_ERROR|EXECUTION_FAILED)|CUBLAS_STATUS_MAPPING_ERROR)",
        DeviceFault,
        hardware=False,
    ),
    signature(
        r"CUSPARSE_STATUS_(?:INSUFFICIENT_RESOURCES|ALLOC_FAILED)|(?:cusolver|cuSOLVER) error: CUSOLVER_STATUS_ALLOC_FAILED"
        r"|cuFFT error: CUFFT_ALLOC_FAILED",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(
        r"nvrtc: error: invalid value for --gpu-architecture",
        CudaMismatch,
        what="NVRTC is older than this GPU's architecture",
    ),
    signature(r"nvrtc: error: failed to open (?P<name>libnvrtc-builtins[\w.\-]*\w)", LibraryMissing),
    signature(
        r"(?:FIND|GET) was unable to find an engine to execute this computation",
        CudaMismatch,
        what="cuDNN has no engine for this GPU and type",
    ),
    signature(
        r"CUDA error: MPS (?:client failed to connect|server is not ready|client terminated|RPC)",
        CudaMismatch,
        what="the CUDA MPS service did not answer",
    ),
)

_TRITON = (
    signature(
        r"Triton Error \[CUDA\]: (?:device kernel image is invalid|no kernel image is available|the provided PTX was compiled)",
        CudaMismatch,
        what="Triton's kernel does not fit this GPU or driver",
    ),
    signature(r"Triton Error \[(?:CUDA|HIP)\]: out of memory", DeviceMemoryExhausted),
    signature(
        r"Triton Error \[(?:CUDA|HIP)\]: (?:an )?(?P<what>illegal memory access was encountered|illegal instruction was"
        r" encountered|misaligned address|unspecified launch failure|invalid argument|invalid device context)",
        DeviceFault,
        hardware=False,
    ),
)

_GRAPHS = (
    signature(
        r"CUDA error: (?P<what>operation not permitted when stream is capturing|operation failed due to a previous error"
        r" during capture|operation would make the legacy stream depend on a capturing blocking stream"
        r"|dependency created on uncaptured work in another stream|operation not permitted on an event last recorded in a"
        r" capturing stream|capture was not ended in the same stream)",
        UnsupportedCombination,
    ),
    signature(
        r"CUDA error: (?P<what>invalid configuration argument|operation not permitted)(?! (?:when|on))",
        DeviceFault,
        hardware=False,
    ),
)

_WITHOUT = (
    signature(
        r"default timeout for nccl backend, but NCCL support is not compiled",
        CudaMismatch,
        what="this PyTorch was built without NCCL",
    ),
    signature(
        r"Error: [^\n]{0,200}\b[Rr]e-?(?:build|compile|install) [^\n]{0,60}with (?:CUDA|GPU|cuda|gpu|ROCm|NCCL) support",
        CudaMismatch,
        what="an extension was built without support for the GPU",
    ),
)

SIGNATURES = _THC + _LIBRARIES + _TRITON + _GRAPHS + _WITHOUT
