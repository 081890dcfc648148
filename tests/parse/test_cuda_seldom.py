# SPDX-License-Identifier: Apache-2.0
"""Errors of the CUDA runtime that are seldom seen, as torch and NCCL print them."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.resource import Contention
from keepstep.parse.tools.cuda import seldom as cuda_seldom
from tests.parse.reading import reader

read = reader(cuda_seldom)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("RuntimeError: CUDA error: system has unsupported display driver / cuda driver combination", CudaMismatch),
        ("Error 803: system has unsupported display driver / cuda driver combination", CudaMismatch),
        ("NCCL WARN Cuda failure 'CUDA driver is a stub library'", CudaMismatch),
        ("RuntimeError: CUDA error: a PTX JIT compilation failed", CudaMismatch),
        ("CUDA error: the remote procedural call between the MPS server and the MPS client failed", Contention),
        ("cuda runtime error (54) : exclusive-thread device already in use by a different thread", Contention),
        ("terminate called: CUDA error: driver shutting down", DeviceFault),
        ("NCCL WARN Cuda failure 709 'context is destroyed'", DeviceFault),
        ("n1: Test CUDA failure common.cu:891 'CUDA driver is a stub library'", CudaMismatch),
        (
            "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorJitCompilationDisabled: a PTX JIT compilation failed",
            CudaMismatch,
        ),
    ],
)
def test_a_seldom_error_is_read(text: str, kind: type[Fact]) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "INFO: the CUDA context is destroyed at exit",
        "RuntimeError: CUDA error: out of memory",
        "waiting until the driver is shutting down",
    ],
)
def test_other_words_are_none(text: str) -> None:
    assert read(text) == []
