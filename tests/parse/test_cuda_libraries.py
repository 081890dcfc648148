# SPDX-License-Identifier: Apache-2.0
"""CUDA errors as its libraries, THC, Triton and graphs word them."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.parse.tools.cuda import libraries as cuda_libraries
from tests.parse.reading import reader

read = reader(cuda_libraries)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("RuntimeError: cublas runtime error : the GPU program failed to execute at THCBlas.cu:450", CudaMismatch),
        ("RuntimeError: cublas runtime error : library not initialized at THCGeneral.cpp:250", DeviceMemoryExhausted),
        ("RuntimeError: cublas runtime error : an internal operation failed at THCBlas.cu:258", DeviceFault),
        ("RuntimeError: cuda runtime error (8) : invalid device function at THCTensorCopy.cu:204", CudaMismatch),
        (
            "RuntimeError: cuda runtime error (77) : an illegal memory access was encountered at THCStorage.c:36",
            DeviceFault,
        ),
        ("RuntimeError: cuda runtime error (9) : invalid configuration argument at THCTensorMath.cu:24", DeviceFault),
        (
            "E xla/stream_executor/cuda/cuda_dnn.cc:478] Memory usage: 42069065728 bytes free, 42505273344 bytes total.",
            CudaMismatch,
        ),
        ("RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR", CudaMismatch),
        (
            "RuntimeError: cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED, when calling `cusolverDnCreate(h)`",
            CudaMismatch,
        ),
        ("RuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `x`", DeviceFault),
        ("RuntimeError: CUDA error: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES when calling `x`", DeviceMemoryExhausted),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)", CudaMismatch),
        ("nvrtc: error: failed to open libnvrtc-builtins.so.11.1.", LibraryMissing),
        ("RuntimeError: GET was unable to find an engine to execute this computation", CudaMismatch),
        ("RuntimeError: Triton Error [CUDA]: device kernel image is invalid", CudaMismatch),
        ("RuntimeError: Triton Error [CUDA]: out of memory", DeviceMemoryExhausted),
        ("RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered", DeviceFault),
        ("RuntimeError: CUDA error: operation not permitted when stream is capturing", UnsupportedCombination),
        ("RuntimeError: CUDA error: operation not permitted", DeviceFault),
        (
            "ImportError: The mpi4jax GPU extensions could not be imported. Please re-build mpi4jax with CUDA support",
            CudaMismatch,
        ),
    ],
)
def test_a_message_is_one_fact(line, kind):
    (fact,) = read(line)
    assert isinstance(fact, kind)


@pytest.mark.parametrize(
    "line",
    [
        "cuda_dnn.cc:443] Memory usage: 2624061440 bytes free, 12524191744 bytes total.",
        "cuFFT plan cache size 16",
        "Triton 2.1.0",
        "capturing CUDA graph shapes: 100%",
        "operation not permitted",
    ],
)
def test_ordinary_lines_say_nothing(line):
    assert read(line) == []


def test_cuda_that_could_not_be_started() -> None:
    words = "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES"
    assert any(isinstance(fact, CudaMismatch) for fact in read(f"RuntimeError: {words}"))
    assert read(f"UserWarning: CUDA initialization: {words}") == []
