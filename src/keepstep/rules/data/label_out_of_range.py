# SPDX-License-Identifier: Apache-2.0
"""DAT007: a label or token id was outside its table."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, LabelOutOfRange, Standing, rule
from keepstep.rules.asking.fallout import FALLOUT, lasting, who


@rule(
    id="DAT007",
    cause=Cause.DATA_LABEL_OUT_OF_RANGE,
    needs=(LabelOutOfRange,),
    explains=(*FALLOUT, Cause.HARDWARE_GPU_FAULT_XID_ECC),
)
def label_out_of_range(seen: EvidenceSet) -> Findings:
    """A class label, token id or position was outside its table.

    ## What it looks like
    `Target 10 is out of bounds`, `index out of range in self`, `Received a label value of 10 which is outside
    the valid range of [0, 10)`, or on a GPU `Assertion t >= 0 && t < n_classes failed` followed by
    `device-side assert triggered` at some later, innocent call.

    ## Why it happens
    Labels count from 1, a class was added, the loss does not know the ignore index, the tokenizer has more entries than
    the embedding, or a sequence is longer than the position table.

    ## How we know
    The device kernel checks each index and says which bound was exceeded. A bare `device-side assert triggered` usually
    means this too, but is only reported as a hypothesis.

    ## What to do
    Compare the largest label or id in the batch with the size of the table.

    ## When this is wrong
    Other asserts in device code (probabilities outside 0..1, a wrong gather index) end in the same
    `device-side assert triggered`.
    """
    found = lasting(seen, LabelOutOfRange)
    sure = tuple(e for e in found if e.fact.certain)
    if not found:
        return
    named = next((e.fact for e in sure if e.fact.label), None)
    if named is not None and named.limit is not None and named.limit.isdecimal() and len(named.limit) < 19:
        what = f"label or id {named.label}, outside 0..{int(named.limit) - 1}"
    elif named is not None:
        what = f"label or id {named.label}, outside its table"
    else:
        what = "an index outside its table"
    yield Found(
        title=f"{who(sure or found)} used {what}",
        because="the operation found an index outside its table"
        if sure
        else "a device-side assert was triggered, usually by a label or token id out of range",
        evidence=sure or found,
        confidence=Confidence.ESTABLISHED if sure else Confidence.HYPOTHESIS,
        standing=Standing.MECHANISM if sure else Standing.EXCEPTION,
        fixes=(
            Fix(do="compare the largest label with the number of classes", code="print(labels.min(), labels.max())"),
            Fix(do="on a GPU, make the traceback show the call that failed", command="export CUDA_LAUNCH_BLOCKING=1"),
        ),
    )
