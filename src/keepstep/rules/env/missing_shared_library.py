# SPDX-License-Identifier: Apache-2.0
"""ENV002: a shared library was not found."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.model.facts import CudaMismatch, DeviceMemoryExhausted, GpuLibrariesMissing, LibraryMissing
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    lazy_pattern,
    listing,
    rule,
)
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who

OF_CUDA = ("ptxas", "nvlink", "libdevice")
"""What XLA needs from CUDA's compiler; the dynamic loader does not find these."""
HADOOP = "Hadoop's classes"
NO_GPU_KNOWN = "TensorFlow sees no GPU"
NO_HANDLE = lazy_pattern(r"^cu(solver|blas|sparse|fft|rand) could not start")


@rule(
    id="ENV002",
    cause=Cause.ENV_MISSING_SHARED_LIBRARY,
    needs=(LibraryMissing,),
    explains=(*OF_A_DEAD_RANK, Cause.NETWORK_UNREACHABLE_OR_FIREWALL, Cause.ENV_FRAMEWORK_CUDA_MISMATCH),
)
def missing_shared_library(seen: EvidenceSet) -> Findings:
    """A program or module could not start because a shared library was not found.

    ## What it looks like
    `error while loading shared libraries: libX.so: cannot open shared object file`, `ImportError: libX.so:
    cannot open shared object file`, `OSError: libX.so: ...`, often on one node only.

    ## Why it happens
    The library is not installed on that node, or is in a folder that the loader does not search: shells started by ssh
    do not read the login files, so LD_LIBRARY_PATH differs there.

    ## How we know
    The loader names the library that it could not open.

    ## What to do
    Install it on every node, or add its folder to the loader's path, in non-interactive shells too.

    ## When this is wrong
    Optional libraries print the same message as a warning; those are left out.
    """
    missing = once_a_line(
        e for e in seen.all(LibraryMissing) if (e.fact.fatal or _wanted(seen, e)) and not seen.survived(e)
    )
    given_up = [e for e in seen.all(GpuLibrariesMissing) if not seen.survived(e)]
    without_gpus = not missing and bool(given_up)
    if without_gpus:
        missing = once_a_line(seen.all(LibraryMissing))
    needed = without_gpus and any(
        e.fact.what.startswith(NO_GPU_KNOWN) and not seen.survived(e) for e in seen.all(CudaMismatch)
    )
    if not missing:
        return
    names = list(dict.fromkeys(e.fact.name for e in missing if e.fact.name))
    what = listing(names[:3]) if names else "a shared library"
    yield Found(
        title=(
            f"{who(missing)} runs without GPUs: {what} was not found"
            if without_gpus
            else f"{who(missing)} could not start: {what} was not found"
        ),
        because=f"{what} could not be loaded on that host",
        evidence=missing,
        severity=Severity.WARNING if without_gpus and not needed else None,
        confidence=Confidence.SUPPORTED if without_gpus else None,
        fixes=(*_of_python(missing), *_fixes(names[0] if names else "LIB")),
    )


def _of_python(missing: Sequence[Evidence[LibraryMissing]]) -> tuple[Fix, ...]:
    """A compiled module of a Python package is installed with it."""
    named = next((e.fact.name for e in missing if e.fact.name and "No module named" in e.quote), None)
    do = "install the package that contains it on every node, in the environment that the ranks use"
    return (Fix(do=do, command=f"python -m pip install {named.partition('.')[0]}"),) if named else ()


def _wanted(seen: EvidenceSet, missing: Evidence[LibraryMissing]) -> bool:
    """Whether a library that seemed optional was needed: it then could not create a handle."""
    name = (missing.fact.name or "").lower()
    failed = [e.fact.library for e in seen.all(DeviceMemoryExhausted) if e.fact.library]
    failed += [said[1] for e in seen.all(CudaMismatch) if (said := NO_HANDLE.search(e.fact.what))]
    return any(library in name for library in failed)


def _fixes(name: str) -> tuple[Fix, ...]:
    if name == HADOOP:
        return (
            Fix(
                do="tell libhdfs where Hadoop's classes are, on every node",
                command="export CLASSPATH=$(hadoop classpath --glob)",
            ),
        )
    if not name.startswith(OF_CUDA):
        return (
            Fix(do="check whether the loader finds it, on every node", command=f"ldconfig -p | grep {name}"),
            Fix(
                do="add its folder to the loader's path, and pass that to the ranks (mpirun -x LD_LIBRARY_PATH)",
                command="export LD_LIBRARY_PATH=/path/to/lib:$LD_LIBRARY_PATH",
            ),
            Fix(do="or install the package that contains it, in the same version, on every node"),
        )
    return (
        Fix(do="check where CUDA's compiler is, on every node", command="command -v ptxas; ls -d /usr/local/cuda*"),
        Fix(do="tell XLA where it is", command="export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda"),
        Fix(do="or install CUDA's compiler, in the CUDA version of the framework's build, on every node"),
    )
