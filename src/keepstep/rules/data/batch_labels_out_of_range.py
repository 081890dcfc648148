# SPDX-License-Identifier: Apache-2.0
"""DAT206: a batch has labels outside the declared range."""

from __future__ import annotations

from keepstep.rules.api import BatchOdd, Cause, EvidenceSet, Findings, Fix, rule
from keepstep.rules.asking.odd_batches import odd_batches


@rule(
    id="DAT206",
    cause=Cause.DATA_LABEL_OUT_OF_RANGE,
    needs=(BatchOdd,),
    explains=(
        Cause.USER_CODE_EXCEPTION,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.SYNC_COLLECTIVE_MISMATCH,
        Cause.HARDWARE_GPU_FAULT_XID_ECC,
    ),
)
def batch_labels_out_of_range(seen: EvidenceSet) -> Findings:
    """A batch has labels outside the declared range.

    ## What it looks like
    A device-side assert or a segmentation fault, or the loss becomes NaN a little later.

    ## Why it happens
    The dataset has one class more than the model, labels start at 1, or the loss does not know the mask value.

    ## How we know
    The guard compares each batch, on the host side, with the declared range of labels.

    ## What to do
    Fix the labels, or tell the loss which value to ignore.

    ## When this is wrong
    The range was declared wrongly.
    """
    yield from odd_batches(
        seen,
        "label",
        fix=Fix(do="fix the labels or the number of classes", code="loss = CrossEntropyLoss(ignore_index=-100)"),
    )
