# SPDX-License-Identifier: Apache-2.0
"""DAT065: the last batch would not divide evenly."""

from __future__ import annotations

from keepstep.rules.api import BatchesUneven, Cause, EvidenceSet, Findings, Fix, Found, Safety, Severity, listing, rule


@rule(id="DAT065", cause=Cause.DATA_BATCH_NOT_DIVISIBLE, needs=(BatchesUneven,))
def last_batch_of_other_size(seen: EvidenceSet) -> Findings:
    """The last batch of an epoch would be smaller, or of different sizes on the ranks.

    ## What it looks like
    JAX and `tf.function` compile once more for the smaller batch. Batch normalisation fails on a single row. If sizes
    differ between ranks, a mean over ranks weighs rows differently, and an `all_gather` of the batch fails.

    ## Why it happens
    The number of records does not divide by ranks and batch size, and the remainder is kept.

    ## How we know
    The records were counted and divided in the way that the loader divides them.

    ## What to do
    Drop the remainder, or choose a batch size that divides.

    ## When this is wrong
    When the training weighs each batch by its rows and compiles nothing for a fixed size.
    """
    for each in seen.all(BatchesUneven):
        fact = each.fact
        sizes = listing([f"{rows:,}" for rows in sorted(set(fact.rows))])
        yield Found(
            title=f"step {fact.step:,} would have {sizes} rows "
            + ("on different ranks" if fact.differ else "on every rank")
            + f" ({fact.policy})",
            because=f"the records do not divide by the batch size of {fact.batch:,}, and the remainder is kept",
            evidence=(each,),
            severity=Severity.WARNING if fact.differ else Severity.NOTE,
            fixes=(
                Fix(
                    do="drop the remainder",
                    code="drop_remainder=True  # torch: drop_last=True",
                    safety=Safety.CHANGES_RESULTS,
                ),
            ),
        )
