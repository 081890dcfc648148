# SPDX-License-Identifier: Apache-2.0
"""DAT062: ranks would have different numbers of steps."""

from __future__ import annotations

from keepstep.model.facts import StepsUneven
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, count, rule
from keepstep.rules.api import ranks as say_ranks


@rule(id="DAT062", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(StepsUneven,))
def epochs_of_different_lengths(seen: EvidenceSet) -> Findings:
    """Ranks would have different numbers of steps per epoch, so some wait for others that are done.

    ## What it looks like
    All goes well until the rank with the fewest batches is done. The others then wait in the next collective until
    a time limit.

    ## Why it happens
    Files hold different numbers of records, or their number does not divide evenly among ranks and workers.

    ## How we know
    The records were counted and divided in the way that the loader divides them.

    ## What to do
    Divide records instead of files, drop what does not divide, or end every rank after the same number of steps.

    ## When this is wrong
    With `Join`, a fixed number of steps, or a dataset that repeats, the ranks do not hang. TensorFlow feeds empty
    batches to ranks that are done when a strategy distributes the dataset; then this is a warning.
    """
    for each in seen.all(StepsUneven):
        fact = each.fact
        late = f"after step {fact.least:,}" if fact.least else "before the first step"
        yield Found(
            title=f"{say_ranks(fact.short)} would be done {late}, the longest after step {fact.most:,} ({fact.policy})",
            because=f"the others wait for {'it' if fact.count == 1 else 'them'} at step {fact.least + 1:,}"
            if fact.hangs
            else f"for the last {count(fact.most - fact.least, 'step')}, the strategy feeds empty batches",
            evidence=(each,),
            ranks=fact.short,
            severity=None if fact.hangs else Severity.WARNING,
            fixes=(
                Fix(do="divide the records evenly", code="shard = keepstep.shard(records, batch=batch)"),
                Fix(
                    do="or end every rank after the same number of steps",
                    code=f"for batch in itertools.islice(loader, {fact.least}):"
                    if fact.least
                    else "for batch in itertools.islice(loader, steps):",
                ),
            ),
        )
