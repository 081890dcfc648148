# SPDX-License-Identifier: Apache-2.0
"""DAT204: a batch came in another shape."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import BatchOdd
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.rules.questions.odd_batches import odd_batches


@rule(
    id="DAT204",
    cause=Cause.DATA_SHAPE_MISMATCH,
    needs=(BatchOdd,),
    explains=(Cause.USER_CODE_EXCEPTION, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.SYNC_COLLECTIVE_MISMATCH),
)
def batch_of_other_shape(seen: EvidenceSet) -> Iterator[Found]:
    """A batch came in another shape or structure than those before it.

    ## What it looks like
    An error or a crash deep in a kernel some steps into the training, on one rank.

    ## Why it happens
    A sample that was not resized or padded, a file of another version.

    ## How we know
    The guard holds each batch on the host side against all batches before it. A shape that was never there before is told only
    if the step that took it failed.

    ## What to do
    Fix the sample, or pad and crop where batches are made.

    ## When this is wrong
    Another error in the very step that takes a batch of a new length.
    """
    yield from odd_batches(
        seen,
        "shape",
        "structure",
        fix=Fix(do="fix or pad the samples of that batch; log the file names of each batch to find them"),
    )
