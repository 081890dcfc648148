# SPDX-License-Identifier: Apache-2.0
"""Native extensions that a run builds as it starts, or finds unbuilt: nvcc, gcc, ninja, apex, bitsandbytes."""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch, LibraryMissing
from keepstep.model.facts.sync import SharedStateRace
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(r"(?P<what>unsupported GNU version! gcc versions later than \d+ are not supported)", CudaMismatch),
    signature(
        r"(?P<what>The current installed version of (?:g\+\+|gcc|c\+\+) \([\d.]+\) is (?:greater|less) than the (?:maximum|minimum) required version[^\n]{0,60})",
        CudaMismatch,
    ),
    signature(
        r"(?P<what>The detected CUDA version \([\d.]+\) mismatches the version that was used to compile PyTorch)",
        CudaMismatch,
    ),
    signature(r"(?P<what>CUDA_HOME environment variable is not set)", CudaMismatch),
    signature(
        r"(?P<what>Cuda extensions are being compiled with a version of Cuda that does not match[^\n]{0,60})",
        CudaMismatch,
    ),
    signature(r"fatal error: (?P<name>[\w./\-]+\.(?:h|hpp|cuh)): No such file or directory", LibraryMissing),
    # seen in a stack, or after Ctrl-C: no process is left to remove the lock
    signature(
        r"file_baton\.py(?:\", line \d+,? in wait|:\d+\))",
        SharedStateRace,
        what="a leftover lock file of a C++ extension's build",
    ),
    signature(r"Ninja is required to load C\+\+ extensions", LibraryMissing, name="ninja"),
    signature(
        r"\[Errno 2\] No such file or directory: '(?:[\w./\-]*/)?(?P<name>nvcc|ninja|gcc|g\+\+|c\+\+)'", LibraryMissing
    ),
    signature(
        r"Error building extension '(?P<extension>[\w.\-]+)'",
        lambda match: CudaMismatch(what=f"the extension {match['extension']!r} could not be built"),
    ),
    signature(r"(?P<what>Error compiling objects for extension)", CudaMismatch),
    # Horovod's own build, and what CMake misses in it
    signature(r"(?:ERROR: )?(?:Failed building wheel|Could not build wheels) for (?P<name>horovod)", LibraryMissing),
    signature(
        r"Could NOT find (?P<name>NCCL|MPI_CXX|MPI|CUDAToolkit|CUDA|NVTX) \(missing: |NCCL 2\.0 library or its later version was "
        r"not found|CUDA library was not found|MPI is not found in \$PATH",
        LibraryMissing,
        fatal=False,
    ),
    # torch asks the system for its compiler before it builds
    signature(r"Command '\['which', '(?P<name>[\w+.\-]{1,40})'\]' returned non-zero exit status", LibraryMissing),
    signature(r"(?P<name>apex)\.\w[\w.]{0,60} requires (?:cuda|CUDA) extensions", LibraryMissing),
    signature(r"[Pp]lease install (?P<name>apex) from", LibraryMissing),
    signature(r"(?P<what>CUDA Setup failed despite (?:GPU|CUDA) being available)", CudaMismatch),
    signature(r"CUDA SETUP: Required library version not found: (?P<name>lib\S+\.so)", LibraryMissing, fatal=False),
    signature(
        r"(?P<what>The installed version of bitsandbytes was compiled without GPU support)", CudaMismatch, fatal=False
    ),
)
