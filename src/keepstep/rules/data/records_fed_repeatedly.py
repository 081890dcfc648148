# SPDX-License-Identifier: Apache-2.0
"""DAT063: records would be fed more than once per epoch."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, RecordsRepeated, Severity, count, rule


@rule(id="DAT063", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(RecordsRepeated,))
def records_fed_repeatedly(seen: EvidenceSet) -> Findings:
    """Records would be fed more than once per epoch.

    ## What it looks like
    Nothing fails. An epoch takes as many times longer as there are copies, and more ranks do not make it shorter. Or,
    with padding, a handful of records counts twice.

    ## Why it happens
    The data is not divided at all: auto-sharding is off, or an iterable dataset does not ask for its rank and worker.
    Samplers also fill up the shares of some ranks, so all have the same length.

    ## How we know
    The records were counted and divided in the way that the loader divides them.

    ## What to do
    Divide the data. Padding needs nothing in training; leave it out where metrics must be exact.

    ## When this is wrong
    When each rank shuffles in its own way on purpose and the length of an epoch does not matter.
    """
    for each in seen.all(RecordsRepeated):
        fact = each.fact
        if fact.records < 1:
            continue
        times, more = divmod(fact.records + fact.repeats, fact.records)
        about = "more than " if more else ""
        yield Found(
            title=f"{count(fact.repeats, 'record')} would be fed twice per epoch to fill up the shares ({fact.policy})"
            if fact.padding
            else f"every record would be fed {about}{times:,} times per epoch ({fact.policy})",
            because="the number of records does not divide evenly, and this loader repeats some"
            if fact.padding
            else f"nothing divides the data: {fact.shared:,} of {fact.records:,} records go to more than one rank",
            evidence=(each,),
            severity=Severity.NOTE if fact.padding else Severity.WARNING,
            fixes=(
                Fix(do="for exact metrics, leave the padding out of them")
                if fact.padding
                else Fix(do="divide the records", code="shard = keepstep.shard(records, batch=batch)"),
            ),
        )
