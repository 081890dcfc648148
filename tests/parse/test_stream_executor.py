# SPDX-License-Identifier: Apache-2.0
"""What StreamExecutor says of a GPU that failed it."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch, LibraryMissing
from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.sync import ForkOrThread
from keepstep.parse.tools.tensorflow import stream_executor
from tests.parse.reading import reader

read = reader(stream_executor)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "failed to enqueue async memcpy from device to host: CUDA_ERROR_LAUNCH_TIMEOUT; host dst: 0x7fbdd0001680",
            DeviceFault,
        ),
        ("could not synchronize on CUDA context: CUDA_ERROR_HARDWARE_STACK_ERROR: hardware stack error", DeviceFault),
        ("rocm_dnn.cc:532] could not create miopen handle: miopenStatusUnknownError", CudaMismatch),
        ("InternalError: miopen library could not create a handle: miopenStatusNotInitialized", CudaMismatch),
        (
            "'INTERNAL: ptxas 12.3.103 has a bug that we think can affect XLA. Please use a different version.'",
            CudaMismatch,
        ),
        (
            "nvptx_compiler.cc:619] ptxas returned an error during compilation of ptx to sass: 'INTERNAL: x'",
            CudaMismatch,
        ),
        (
            "There was an error before creating cudnn handle (500): cudaErrorSymbolNotFound : named symbol not found",
            CudaMismatch,
        ),
        (
            "cuda_driver.cc:404] Check failed: CUDA_SUCCESS == cuDevicePrimaryCtxGetState(device, &f, &a) (0 vs. 303)",
            CudaMismatch,
        ),
        (
            "cuda_driver.cc:404] Check failed: CUDA_SUCCESS == cuDevicePrimaryCtxGetState(device, &f, &a) (0 vs. 3)",
            ForkOrThread,
        ),
        (
            "E tensorflow/stream_executor/cuda/cuda_dnn.cc:393] possibly insufficient driver version: 384.69.0",
            CudaMismatch,
        ),
        ("E xla/stream_executor/cuda/cuda_dnn.cc:398] Possibly insufficient driver version: 460.106.0", CudaMismatch),
        (
            "tf_gpu_runtime_wrappers.cc:40] 'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'",
            CudaMismatch,
        ),
        ("'cuModuleGetFunction(&function, module, kernel_name)' failed with 'CUDA_ERROR_INVALID_HANDLE'", CudaMismatch),
        (
            "InternalError: 'cuLaunchKernel(function, gridX, gridY, params, nullptr)' failed with 'CUDA_ERROR_INVALID_HANDLE'",
            CudaMismatch,
        ),
        ("op_kernel.cc:1780] OP_REQUIRES failed at xla_ops.cc:435 : UNKNOWN: JIT compilation failed.", CudaMismatch),
        ("JIT compilation failed.", CudaMismatch),
        ("XlaRuntimeError: UNIMPLEMENTED: Linked libnvptxcompiler is too old for sm_120.", CudaMismatch),
        ("XlaRuntimeError: UNIMPLEMENTED: Loaded PTX assembler is too old for sm_120a.", CudaMismatch),
        ("XlaRuntimeError: INTERNAL: XLA requires ptxas version 11.8 or higher", CudaMismatch),
        (
            "FAILED_PRECONDITION: CUDA toolkit version mismatch. Running with version 12.4, but executable requires >= 12.8",
            CudaMismatch,
        ),
        (
            "GPU compute capability of serialized executable doesn't match target device capability. (serialized: 8.0)",
            CudaMismatch,
        ),
        ("INTERNAL: StreamExecutor cuda device (0) requires compute capability '6.0' but is of '5.2'", CudaMismatch),
        (
            "NOT_FOUND: Couldn't find a suitable version of ptxas. The following locations were considered: /x/bin/ptxas",
            LibraryMissing,
        ),
        (
            "W asm_compiler.cc:231] Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 9.0",
            CudaMismatch,
        ),
        ("cuda_driver.cc:1002] failed to load PTX text as a module: CUDA_ERROR_INVALID_PTX", CudaMismatch),
        (
            "Attempting to fetch value instead of handling error Internal: no supported devices found for platform CUDA",
            CudaMismatch,
        ),
        ("InternalError: cudaSetDevice() on GPU:0 failed. Status: unknown error", CudaMismatch),
        ("InternalError: cudaGetDevice() failed. Status: initialization error", ForkOrThread),
        (
            "Ignoring visible gpu device (device: 0) with Cuda compute capability 3.5. The minimum required Cuda capability is 5.2.",
            CudaMismatch,
        ),
    ],
)
def test_a_device_that_failed_is_read(text: str, kind: type) -> None:
    assert [type(fact) for fact in read(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "ptxas returned an error during compilation of ptx to sass: 'RESOURCE_EXHAUSTED: /tmp/x; No space left on device'",
        "There was an error before creating cudnn handle (700): cudaErrorIllegalAddress : an illegal memory access",
        "12.4 ptxas too old. Falling back to the driver to compile.",
        "Successfully opened dynamic library libMIOpen.so",
        "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_OUT_OF_MEMORY'",
        "RuntimeError: Internal: Failed to load PTX text as a module: CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed",
        "TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0. CUDA kernels will be jit-compiled",
    ],
)
def test_another_line_says_nothing(text: str) -> None:
    assert read(text) == []


def test_a_compiler_that_is_too_old_is_not_yet_a_failure() -> None:
    (fact,) = read(
        "W subprocess_compilation.cc:237] Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 12.0"
    )
    assert fact == CudaMismatch(what="ptxas is too old for a GPU of compute capability 12.0", fatal=False)
