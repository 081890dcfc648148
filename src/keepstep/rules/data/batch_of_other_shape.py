# SPDX-License-Identifier: Apache-2.0
"""DAT204: a batch had a different shape."""

from __future__ import annotations

from keepstep.rules.api import BatchOdd, Cause, EvidenceSet, Findings, Fix, rule
from keepstep.rules.asking.odd_batches import odd_batches


@rule(
    id="DAT204",
    cause=Cause.DATA_SHAPE_MISMATCH,
    needs=(BatchOdd,),
    explains=(Cause.USER_CODE_EXCEPTION, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.SYNC_COLLECTIVE_MISMATCH),
)
def batch_of_other_shape(seen: EvidenceSet) -> Findings:
    """A batch had a different shape or structure than the batches before it, or another shape than was declared.

    ## What it looks like
    One rank fails or crashes deep in a kernel, some steps into the training.

    ## Why it happens
    A sample was not resized or padded, or a file comes from another version of the dataset.

    ## How we know
    The guard compares each batch, on the host side, with all batches before it. A new shape is reported only if the
    step that used it failed. What contradicts `attach(shapes=...)` always is, and `KEEPSTEP=strict` stops before it.

    ## What to do
    Fix the sample, or pad and crop samples where batches are made.

    ## When this is wrong
    Another error happened in the same step that used a batch of a new length.
    """
    yield from odd_batches(
        seen,
        "shape",
        "structure",
        fix=Fix(do="fix or pad the samples of that batch; to find them, log the file names of each batch"),
    )
