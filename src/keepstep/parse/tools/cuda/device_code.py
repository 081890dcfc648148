# SPDX-License-Identifier: Apache-2.0
"""Code that the driver, ptxas or nvlink rejects, as XLA, TensorFlow and the linkers of CUDA and ROCm word it.

What the CUDA runtime says about it under ``CUDA error: ...`` is in ``cuda/errors``.
"""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch, LibraryMissing
from keepstep.parse.scan.signature import signature

_NOT_FOR_IT = "the kernels that were built or compiled do not fit this driver or GPU"
_OF_TWO_KITS = "the tools of CUDA that were found are of another version than the framework's code"

_STATUS = r"Error: [A-Z_]{2,30}: "


SIGNATURES = (
    signature(
        r"CUDA_ERROR_INVALID_(?:IMAGE|SOURCE)\b|cudaErrorInvalidKernelImage|(?:hipError|HIP_ERROR_?)(?:NoBinaryForGpu|NO_BINARY_FOR_GPU|InvalidImage)",
        CudaMismatch,
        what=_NOT_FOR_IT,
    ),
    signature(
        r"(?:[Ff]ailed to load PTX text as a module|Failed to load (?:in-memory CUBIN|HSACO)): [^\n]{0,60}device kernel image is invalid"
        r"|error +: Binary format for key='\d+', ident='[^'\n]{0,80}' is not recogni[sz]e",
        CudaMismatch,
        what=_NOT_FOR_IT,
    ),
    signature(
        r"CUDA_ERROR_JIT_COMPILER_NOT_FOUND|PTX JIT compiler library not found",
        LibraryMissing,
        name="libnvidia-ptxjitcompiler.so",
    ),
    # the linker of device code
    signature(
        r"nvlink fatal +: Input file '[^'\n]{1,300}' newer than toolkit|The CUDA linking API did not work\.",
        CudaMismatch,
        what=_OF_TWO_KITS,
    ),
    signature(
        r"(?:Error|F\w{4,8} [^\n]{0,80}\]|fatal)[^\n]{0,40}: [^\n]{0,60}nvlink exited with non-zero error code",
        CudaMismatch,
        what=_OF_TWO_KITS,
    ),
    signature(r"Error: [A-Z_]{3,30}: Couldn't get ptxas/nvlink version string", LibraryMissing, name="ptxas"),
    signature(rf"{_STATUS}(?P<what>\S{{1,80}} ptxas too old|ptxas too old)", CudaMismatch),
)
