# SPDX-License-Identifier: Apache-2.0
"""ENV005: NCCL hit a CUDA error, and the log does not give the reason."""

from __future__ import annotations

from keepstep.model.facts import CommunicationFailed, StepSeen
from keepstep.rules.api import (
    TO_THE_END,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    rule,
)

SOME_STEPS = 3
"""So many different steps need NCCL, CUDA and the driver to fit."""


@rule(
    id="ENV005",
    cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
    needs=(CommunicationFailed,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def unhandled_cuda_error(seen: EvidenceSet) -> Findings:
    """NCCL hit a CUDA error, and the log does not contain CUDA's own message.

    ## What it looks like
    `ncclUnhandledCudaError`, `unhandled cuda error`, usually from `ncclCommInitRank`.

    ## Why it happens
    At start: an incompatible driver, CUDA runtime and NCCL. Later: an earlier CUDA error of any kind.

    ## How we know
    We do not: the code stands for a class of errors. NCCL prints the line that says more only with NCCL_DEBUG.

    ## What to do
    Run again with `NCCL_DEBUG=INFO` and read the first `NCCL WARN Cuda failure`.

    ## When this is wrong
    Often. That is why it is a hypothesis, reported only when nothing else is found, and not after steps that went well:
    a driver that does not fit fails at once.
    """
    found = [
        e
        for e in seen.all(CommunicationFailed)
        if "uda" in e.fact.code.lower() and not seen.survived(e) and not _trained_before(seen, e)
    ]
    if found:
        yield Found(
            title="NCCL hit a CUDA error, and the log does not give the reason",
            because="usually, the driver, the CUDA libraries and NCCL are not compatible",
            evidence=tuple(found),
            fixes=(
                Fix(do="make NCCL print what failed", command="export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT"),
                Fix(do="compare the driver with the CUDA that the framework was built for", command="nvidia-smi"),
            ),
        )


def _trained_before(seen: EvidenceSet, failed: Evidence[CommunicationFailed]) -> bool:
    steps = {(e.fact.step, e.fact.of) for e in seen.near(failed, StepSeen, before=TO_THE_END)}
    return len(steps) >= SOME_STEPS
