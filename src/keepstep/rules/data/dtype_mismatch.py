# SPDX-License-Identifier: Apache-2.0
"""DAT002: the operands of an operation had dtypes that do not match."""

from __future__ import annotations

from keepstep.model.facts import DtypeMismatch, ExceptionRaised
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Safety, rule, shorten
from keepstep.rules.asking.fallout import FALLOUT, lasting, who
from keepstep.rules.last_resort.words import ErrorSubject, in_words, said


@rule(id="DAT002", cause=Cause.DATA_DTYPE_MISMATCH, needs=(DtypeMismatch, ExceptionRaised), explains=FALLOUT)
def dtype_mismatch(seen: EvidenceSet) -> Findings:
    """An operation got operands whose dtypes do not match.

    ## What it looks like
    `expected scalar type Half but found Float`, `expected mat1 and mat2 to have the same dtype`, `was
    expected to be a float tensor but is a double tensor`, `"addmm" not implemented for 'Half'`.

    ## Why it happens
    Part of the model or of the batch has another precision: mixed precision is used without autocast, a frozen part or
    an adapter was left in float32, labels have the wrong dtype, or FSDP flattens parameters of different dtypes
    together.

    ## How we know
    The framework names both dtypes. Where the message is not a known one, an exception about dtypes that differ is
    enough for a hypothesis.

    ## What to do
    Convert both sides to the same dtype, or run the forward pass under autocast.

    ## When this is wrong
    The code catches the error and goes on.
    """
    found = lasting(seen, DtypeMismatch)
    if not found:
        for raised in said(seen, ErrorSubject.DTYPE)[:1]:
            yield in_words(seen, raised, "dtypes that do not match", _FIXES)
        return
    first = found[0].fact
    yield Found(
        title=f"{who(found)} mixed dtypes: {shorten(first.left or '?', 25)} and {shorten(first.right or '?', 25)}",
        because="the operation rejected operands of two dtypes",
        evidence=found,
        fixes=_FIXES,
    )


_FIXES = (
    Fix(
        do="convert inputs and parameters to one dtype",
        code="batch = batch.to(next(model.parameters()).dtype)",
        safety=Safety.CHANGES_RESULTS,
    ),
    Fix(
        do="or run the forward pass under autocast",
        code="with torch.autocast('cuda', dtype=torch.bfloat16):",
        safety=Safety.CHANGES_RESULTS,
    ),
)
