# SPDX-License-Identifier: Apache-2.0
"""DAT207: a batch was empty."""

from __future__ import annotations

from keepstep.rules.api import BatchOdd, Cause, EvidenceSet, Findings, Fix, rule
from keepstep.rules.asking.odd_batches import odd_batches


@rule(
    id="DAT207",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(BatchOdd,),
    explains=(
        Cause.USER_CODE_EXCEPTION,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.NUMERIC_NAN_OR_DIVERGENCE,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    ),
)
def batch_empty(seen: EvidenceSet) -> Findings:
    """A batch had no rows.

    ## What it looks like
    The loss is NaN, because it is a mean over nothing. Or a rank skips the empty batch and leaves the others waiting.

    ## Why it happens
    A shard is shorter than the others, or a filter removes all rows.

    ## How we know
    The guard compares each batch, on the host side, with the batches before it.

    ## What to do
    Drop or repeat data, so every rank has rows at every step.

    ## When this is wrong
    The loop skips empty batches on all ranks alike.
    """
    yield from odd_batches(
        seen,
        "empty",
        "short",
        fix=Fix(do="make sure that every rank has rows at every step", code="dataset.repeat()  # or drop_last=True"),
    )
