# SPDX-License-Identifier: Apache-2.0
"""Code for GPUs that the driver or the linker does not take."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch, LibraryMissing
from keepstep.parse.tools.cuda import device_code
from tests.parse.reading import reader

read = reader(device_code)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "E pjrt_stream_executor_client.cc:2461] Execution of replica 0 failed: INTERNAL: Failed to load in-memory CUBIN (compiled for"
            " a different GPU?).: CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid",
            CudaMismatch,
        ),
        ("InternalError: 'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_IMAGE'", CudaMismatch),
        (
            "cuda_driver.cc:869] error log buffer (63 bytes): error   : Binary format for key='0', ident='' is not recognize",
            CudaMismatch,
        ),
        ("hipErrorNoBinaryForGpu: Unable to find code object for all current devices!", CudaMismatch),
        (
            "INTERNAL: nvlink failed, output: nvlink fatal   : Input file '/tmp/t-1' newer than toolkit (118 vs 115)",
            CudaMismatch,
        ),
        ("gpu_compiler.cc:1592] The CUDA linking API did not work. Please use XLA_FLAGS=--xla_gpu_force", CudaMismatch),
        ("XlaRuntimeError: FAILED_PRECONDITION: Couldn't get ptxas/nvlink version string: INTERNAL", LibraryMissing),
        ("RuntimeError: PTX JIT compiler library not found", LibraryMissing),
    ],
)
def test_a_message_is_a_fact(line, kind):
    found = read(line)
    assert found
    assert all(isinstance(fact, kind) for fact in found)


@pytest.mark.parametrize(
    "line",
    [
        "Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 8.9",
        "Failed to load in-memory CUBIN: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "warning: nvlink is slow",
    ],
)
def test_ordinary_lines_say_nothing(line):
    assert read(line) == []
