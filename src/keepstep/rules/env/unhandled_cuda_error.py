# SPDX-License-Identifier: Apache-2.0
"""ENV005: NCCL met a CUDA error and the log does not hold its reason."""

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
    """NCCL met a CUDA error, and the log does not hold CUDA's own words.

    ## What it looks like
    `ncclUnhandledCudaError`, `unhandled cuda error`, most often already from `ncclCommInitRank`.

    ## Why it happens
    At start: a driver, CUDA runtime and NCCL that do not fit each other. Later: whatever CUDA met before.

    ## How we know
    We do not: the code names a class of errors. The line that says more is printed only with NCCL_DEBUG.

    ## What to do
    Run once more with `NCCL_DEBUG=INFO` and read the first `NCCL WARN Cuda failure`.

    ## When this is wrong
    Often: that is why it is a guess, and given only when nothing else is found.
    """
    found = [e for e in seen.all(CommunicationFailed) if "uda" in e.fact.code.lower() and not seen.survived(e)]
    if found:
        yield Found(
            title="NCCL met a CUDA error and the log does not hold its reason",
            because="mostly the driver, the CUDA libraries and NCCL do not fit each other",
            evidence=tuple(found),
            fixes=(
                Fix(do="let NCCL say what failed", command="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT torchrun ..."),
                Fix(do="compare the driver with the CUDA that the framework was built for", command="nvidia-smi"),
            ),
        )
