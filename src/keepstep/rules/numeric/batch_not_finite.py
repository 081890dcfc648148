# SPDX-License-Identifier: Apache-2.0
"""NUM201: a batch holds values that are not finite."""

from __future__ import annotations

from keepstep.rules.api import BatchOdd, Cause, EvidenceSet, Findings, Fix, rule
from keepstep.rules.asking.odd_batches import odd_batches


@rule(
    id="NUM201",
    cause=Cause.NUMERIC_NAN_OR_DIVERGENCE,
    needs=(BatchOdd,),
    explains=(
        Cause.USER_CODE_EXCEPTION,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.SYNC_REPLICA_DESYNC,
    ),
)
def batch_not_finite(seen: EvidenceSet) -> Findings:
    """A batch holds NaN or infinite values before the model has seen it.

    ## What it looks like
    The loss is NaN from one step on, on all ranks, because gradients are averaged.

    ## Why it happens
    Corrupt samples, a division by zero in preprocessing, float16 that overflowed on disk.

    ## How we know
    The guard checks a sample of the batches on the host for values that are not finite.

    ## What to do
    Find and drop the samples; check what preprocessing divides by.

    ## When this is wrong
    Masks that use NaN or infinity on purpose: declare `finite=False`.
    """
    yield from odd_batches(
        seen, "not finite", fix=Fix(do="drop or repair the samples", code="assert numpy.isfinite(batch).all()")
    )
