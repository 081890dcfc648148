# SPDX-License-Identifier: Apache-2.0
"""ENV001: driver, CUDA libraries, GPU and framework are not compatible."""

from __future__ import annotations

from keepstep.model.facts import CudaMismatch, DeviceMemoryExhausted, Fact, StepSeen, SymbolMissing
from keepstep.rules.api import (
    TO_THE_END,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Severity,
    rule,
)
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who
from keepstep.rules.env.symbols import of_cuda

NO_DRIVER = "the driver could not be initialised"
DEVICES_LOST = "the driver is not loaded, or this container has lost its GPUs"
FAILED_ON_IT = "cuBLAS has no program for this GPU"
DRIVER_DOUBTED = "cuDNN could not start with the driver"
"""TensorFlow prints this whenever cuDNN does not start, also for lack of memory, which another message then shows."""
NO_ALGORITHM = "no cuDNN algorithm worked on this GPU"
"""XLA prints this; a lack of memory is the other reason here too."""
COMPILER_OLD = "ptxas is too old for a GPU"
A_FEW_STEPS = 3
LAST_LINES = 8
"""If the log ends this soon after the driver failed to start, that ended the run; otherwise it goes on, on the CPU."""


@rule(
    id="ENV001",
    cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
    needs=(CudaMismatch, SymbolMissing),
    explains=(*OF_A_DEAD_RANK, Cause.RESOURCE_GPU_OOM, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.ENV_ABI_OR_CPU_INSTRUCTION),
)
def framework_cuda_mismatch(seen: EvidenceSet) -> Findings:
    """The driver, the CUDA libraries, the GPU and the framework's build are not compatible.

    ## What it looks like
    `CUDA driver version is insufficient for CUDA runtime version`, `no kernel image is available for
    execution on the device`, `Torch not compiled with CUDA enabled`, `Driver/library version mismatch`,
    `Error 802: system not yet initialized`, a cuDNN version other than the one compiled against.

    ## Why it happens
    The framework was updated without the driver, or the reverse; a wheel for another CUDA version or for CPU only was
    installed; the build does not support a GPU this new or this old; an old library comes first on LD_LIBRARY_PATH.

    ## How we know
    The driver or the library refused, and says why.

    ## What to do
    Compare the driver's CUDA version with that of the framework's build on every node, and install matching versions.

    ## When this is wrong
    Frameworks print some of these as a warning and then train on the CPU.
    """
    said = [e for e in seen.all(CudaMismatch) if not seen.survived(e) and not _fitted_before(seen, e)]
    sure = [e for e in said if e.fact.fatal]
    symbols: list[Evidence[Fact]] = [e for e in seen.all(SymbolMissing) if of_cuda(e.fact) and not seen.survived(e)]
    if not sure and not symbols and not (said and (seen.broken or _ends_with_no_driver(seen, said))):
        return
    evidence = (*once_a_line(sure or (() if symbols else said)), *symbols)
    what = sure[0].fact.what if sure else _symbol(symbols[0]) if symbols else said[0].fact.what
    yield Found(
        title=f"{who(evidence)} could not use CUDA: {what}",
        because=what,
        evidence=evidence,
        confidence=None if sure else Confidence.SUPPORTED if symbols else Confidence.HYPOTHESIS,
        severity=None if sure or symbols else Severity.WARNING,
        fixes=(
            Fix(do="check the driver and the newest CUDA it supports, on every node", command="nvidia-smi"),
            Fix(
                do="check what the framework was built for",
                command="python -c 'import torch as t; print(t.__version__, t.version.cuda, t.cuda.get_arch_list())'",
            ),
            Fix(
                do="install a build of the framework that matches the driver, or update the driver",
                safety=Safety.NEEDS_OWNER,
            ),
        ),
    )


def _fitted_before(seen: EvidenceSet, said: Evidence[CudaMismatch]) -> bool:
    """Whether the kernel is compatible after all: it ran for some steps before, or it failed for lack of memory."""
    short = seen.all(DeviceMemoryExhausted)
    if "no supported devices found" in said.fact.what:
        return bool(short)
    if not said.fact.what.startswith((FAILED_ON_IT, DRIVER_DOUBTED, NO_ALGORITHM)):
        return False
    steps = {(e.fact.step, e.fact.of) for e in seen.near(said, StepSeen, before=TO_THE_END) if e.fact.step != 0}
    return len(steps) > A_FEW_STEPS or any(e.fact.fatal or e.fact.requested for e in short)


def _ends_with_no_driver(seen: EvidenceSet, said: list[Evidence[CudaMismatch]]) -> bool:
    return any(
        e.fact.what.startswith((NO_DRIVER, DEVICES_LOST, COMPILER_OLD)) and seen.is_last_word(e, LAST_LINES)
        for e in said
    )


def _symbol(evidence: Evidence[Fact]) -> str:
    fact = evidence.fact
    assert isinstance(fact, SymbolMissing)
    return f"a CUDA library of another version was loaded (no {fact.symbol or 'matching symbol'})"
