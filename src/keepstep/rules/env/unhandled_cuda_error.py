# SPDX-License-Identifier: Apache-2.0
"""ENV005: NCCL hit a CUDA error, and the log does not give the reason."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.network import CommunicationFailed
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule


@rule(
    id="ENV005",
    cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
    needs=(CommunicationFailed,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def unhandled_cuda_error(seen: EvidenceSet) -> Iterator[Found]:
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
    Often. That is why it is a hypothesis, reported only when nothing else is found.
    """
    found = [e for e in seen.all(CommunicationFailed) if "uda" in e.fact.code.lower() and not seen.survived(e)]
    if found:
        yield Found(
            title="NCCL hit a CUDA error, and the log does not give the reason",
            because="usually, the driver, the CUDA libraries and NCCL are not compatible",
            evidence=tuple(found),
            fixes=(
                Fix(do="make NCCL print what failed", command="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT torchrun ..."),
                Fix(do="compare the driver with the CUDA that the framework was built for", command="nvidia-smi"),
            ),
        )
