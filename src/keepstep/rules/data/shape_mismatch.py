# SPDX-License-Identifier: Apache-2.0
"""DAT001: the operands of an operation had shapes that do not match."""

from __future__ import annotations

from keepstep.model.facts import ExceptionRaised, ShapeMismatch
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.asking.fallout import FALLOUT, lasting, who
from keepstep.rules.asking.matched_messages import tells_more
from keepstep.rules.last_resort.words import ErrorSubject, in_words, said

NAME_OF_AN_OPERATION = 3
"""So many words at most; more are what the library said."""


def _both(fact: ShapeMismatch) -> str:
    if fact.left and fact.right:
        return f": {shorten(fact.left, 30)} and {shorten(fact.right, 30)}"
    if fact.op is None:
        return ""
    is_name = len(fact.op.split()) <= NAME_OF_AN_OPERATION
    return f" in {shorten(fact.op, 40)}" if is_name else f": {shorten(fact.op, 60)}"


@rule(id="DAT001", cause=Cause.DATA_SHAPE_MISMATCH, needs=(ShapeMismatch, ExceptionRaised), explains=FALLOUT)
def shape_mismatch(seen: EvidenceSet) -> Findings:
    """An operation got operands whose shapes do not match.

    ## What it looks like
    `mat1 and mat2 shapes cannot be multiplied`, `The size of tensor a (3) must match`, `Incompatible
    shapes`, `stack expects each tensor to be equal size`, `Incompatible shapes for broadcasting`.

    ## Why it happens
    The batch has another shape than the model was built for: samples differ in size, the last batch is smaller, the
    number of classes or channels is wrong, or a sharded parameter was not gathered.

    ## How we know
    The framework names the operation and usually both shapes. Where the message is not a known one, an exception about
    shapes that differ is enough for a hypothesis.

    ## What to do
    Print the shapes of the batch on the rank that failed. Pad, resize or drop the samples that differ.

    ## When this is wrong
    The code catches the error and goes on. Then training continues after the message.
    """
    all_of_it = lasting(seen, ShapeMismatch)
    found = tuple(e for e in all_of_it if not e.fact.supposed) or tuple(e for e in all_of_it if not tells_more(seen, e))
    if not found:
        for raised in said(seen, ErrorSubject.SHAPE)[:1]:
            yield in_words(seen, raised, "shapes that do not match", _FIXES)
        return
    first = found[0].fact
    yield Found(
        title=f"{who(found)} got shapes that do not match{_both(first)}",
        because="the operation rejected its operands" + _both(first),
        evidence=found,
        confidence=Confidence.SUPPORTED if first.supposed else None,
        fixes=_FIXES,
    )


_FIXES = (
    Fix(do="print the shapes of the failing batch on this rank, and compare them with what the model expects"),
    Fix(do="pad or resize samples in the collate function, or drop the smaller last batch", code="drop_last=True"),
)
