# SPDX-License-Identifier: Apache-2.0
"""DAT205: a batch had a different dtype."""

from __future__ import annotations

from keepstep.rules.api import BatchOdd, Cause, EvidenceSet, Findings, Fix, rule
from keepstep.rules.asking.odd_batches import odd_batches


@rule(
    id="DAT205",
    cause=Cause.DATA_DTYPE_MISMATCH,
    needs=(BatchOdd,),
    explains=(Cause.USER_CODE_EXCEPTION, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.SYNC_COLLECTIVE_MISMATCH),
)
def batch_of_other_dtype(seen: EvidenceSet) -> Findings:
    """A batch had a different dtype than the batches before it, or than was declared.

    ## What it looks like
    `expected Float but found Double`, or steps that are suddenly twice as slow.

    ## Why it happens
    NumPy defaults to float64.

    ## How we know
    The guard compares each batch, on the host side, with the dtypes of the first batches or the declared ones.

    ## What to do
    Cast the data where it is read.

    ## When this is wrong
    The dataset mixes dtypes by design. Declare the dtype then.
    """
    yield from odd_batches(
        seen, "dtype", fix=Fix(do="cast the data where it is read", code="array.astype(numpy.float32)")
    )
