# SPDX-License-Identifier: Apache-2.0
"""DAT064: no rank would get some of the records."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, RecordsUnseen, Severity, count, rule

NOTABLE = 0.01
"""The part of the records from which on it is more than a note."""


@rule(id="DAT064", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(RecordsUnseen,))
def records_never_fed(seen: EvidenceSet) -> Findings:
    """No rank would get some of the records in an epoch.

    ## What it looks like
    Nothing fails. The model never sees these records, or not in this epoch.

    ## Why it happens
    What does not fill a batch, or does not divide among the ranks, is dropped. Without shuffling, it is always the
    same records.

    ## How we know
    The records were counted and divided in the way that the loader divides them.

    ## What to do
    Shuffle before dividing, so other records are left out in every epoch, or keep the last batch.

    ## When this is wrong
    When the data is shuffled and a few records per epoch do not matter.
    """
    for each in seen.all(RecordsUnseen):
        fact = each.fact
        if fact.records < 1:
            continue
        part = min(10_000 * fact.unseen // fact.records, 10_000) / 10_000
        by_batches = f"; {fact.dropped:,} of them in batches that are not full" if fact.dropped else ""
        yield Found(
            title=f"no rank would get {fact.unseen:,} of {count(fact.records, 'record')} ({part:.2%}, {fact.policy})",
            because=f"what does not divide is dropped{by_batches}",
            evidence=(each,),
            severity=Severity.WARNING if part >= NOTABLE else Severity.NOTE,
            fixes=(
                Fix(
                    do="feed what is left at the beginning of the next epoch",
                    code='shard = keepstep.shard(records, batch=batch, remainder="carry")',
                ),
            ),
        )
