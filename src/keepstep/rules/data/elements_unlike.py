# SPDX-License-Identifier: Apache-2.0
"""DAT072: batches of one pipeline have different types or shapes."""

from __future__ import annotations

from keepstep.rules.api import Cause, ElementSpecs, EvidenceSet, Findings, Fix, Found, Severity, listing, rule


@rule(id="DAT072", cause=Cause.DATA_SHAPE_MISMATCH, needs=(ElementSpecs,))
def elements_unlike(seen: EvidenceSet) -> Findings:
    """Batches of one pipeline have different types or shapes.

    ## What it looks like
    A step fails at some batch, or compiles again for each new shape. In a group, the ranks then disagree about the
    size of a collective.

    ## Why it happens
    Records are of different sizes and nothing pads or crops them, or a branch of the pipeline yields another type.

    ## How we know
    A sample of batches was read, and their types and shapes differ in more than the rows of the last batch.

    ## What to do
    Pad or crop to one shape, and cast to one type.

    ## When this is wrong
    When the model is meant for shapes that vary, such as sequences padded per batch. Then it is only a note.
    """
    for each in seen.all(ElementSpecs):
        fact = each.fact
        specs = [spec for spec, number in fact.specs if not (fact.ended and spec == fact.last and number == 1)]
        if len(specs) < 2:
            continue
        types = {spec.partition("[")[0] for spec in specs}
        ranks = {spec.count(",") for spec in specs}
        yield Found(
            title=f"{fact.part} changes between batches: {listing(specs[:4])}",
            because="its type changes" if len(types) > 1 else "its shape changes",
            evidence=(each,),
            severity=Severity.WARNING if len(types) > 1 or len(ranks) > 1 else Severity.NOTE,
            fixes=(
                Fix(do="make all batches alike", code="dataset.padded_batch(n, padded_shapes=...)"),
                Fix(do="or, with PyTorch, pad in collate_fn", code="DataLoader(..., collate_fn=pad_and_stack)"),
            ),
        )
