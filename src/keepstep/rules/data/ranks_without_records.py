# SPDX-License-Identifier: Apache-2.0
"""DAT061: ranks would get no records."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, ShareEmpty, count, rule
from keepstep.rules.api import ranks as say_ranks


@rule(id="DAT061", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(ShareEmpty,))
def ranks_without_records(seen: EvidenceSet) -> Findings:
    """Some ranks would be given no record at all.

    ## What it looks like
    These ranks end their first epoch at once. The others wait for them in the first collective, or the run trains with
    fewer ranks than it pays for.

    ## Why it happens
    There are fewer files than ranks, or fewer rows in a global batch than ranks.

    ## How we know
    The records were counted and divided in the way that the loader divides them.

    ## What to do
    Write more, smaller files, divide by records, or use fewer ranks.

    ## When this is wrong
    When the run reads other files than those that were checked, or repeats its data.
    """
    for each in seen.all(ShareEmpty):
        fact = each.fact
        few = f", because there are {count(fact.files, 'file')}" if fact.by_file and fact.files < fact.of else ""
        yield Found(
            title=f"{say_ranks(fact.empty)} would get no records ({fact.count} of {fact.of} ranks, {fact.policy})",
            because="dividing the data in this way leaves nothing for " + ("it" if fact.count == 1 else "them") + few,
            evidence=(each,),
            ranks=fact.empty,
            fixes=(
                Fix(do=f"write the data as at least {fact.of} files")
                if fact.by_file
                else Fix(do=f"use a global batch of at least {fact.of} rows"),
                Fix(do="or divide the records evenly", code="shard = keepstep.shard(records, batch=batch)"),
            ),
        )
