# SPDX-License-Identifier: Apache-2.0
"""CUDA errors reported by others: cuBLAS, cuSOLVER, cuFFT, cuSPARSE, NVRTC, THC of torch 0.x to 1.6, Triton, graphs.

What the runtime says under ``CUDA error: ...`` is in ``cuda/errors``; cuBLAS and cuDNN status names are there too.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature


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
        r"cublas runtime error ?: (?:library not initialized|resource allocation failed)",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
)

_LIBRARIES = (
    signature(
        r"CUSPARSE_STATUS_(?:INSUFFICIENT_RESOURCES|ALLOC_FAILED)|(?:cusolver|cuSOLVER) error: CUSOLVER_STATUS_ALLOC_FAILED"
        r"|cuFFT error: CUFFT_ALLOC_FAILED",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
)


SIGNATURES = _THC + _LIBRARIES
