# SPDX-License-Identifier: Apache-2.0
"""DAT013: the ranks state different amounts of data, and the run stopped without a word."""

from __future__ import annotations

from keepstep.rules.api import AmountsDiffer, Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule


@rule(
    id="DAT013",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(AmountsDiffer,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.GUESS,
)
def amounts_differ(seen: EvidenceSet) -> Findings:
    """The ranks say that they have different amounts of data, and nothing says that the run ended.

    ## What it looks like
    `input files for this worker: 13 of 25` on one rank, `12 of 25` on the other. Both train, then both logs stop.

    ## Why it happens
    Data that is divided by files, or without dropping the remainder, gives ranks different numbers of batches. The rank
    with fewer leaves the loop first; the others wait in a collective that it never enters.

    ## How we know
    All ranks printed the same sentence about their data with different numbers, and nothing else explains the end.

    ## What to do
    Give every rank the same number of batches: drop the remainder, pad, or let all stop at the shortest.

    ## When this is wrong
    The program evens the amounts out later, and the run stopped for another reason, or still goes on.
    """
    for each in seen.all(AmountsDiffer):
        yield Found(
            title=f"rank {each.fact.rank} has {each.fact.least} where others have up to {each.fact.most}, "
            "and the logs just stop",
            because="ranks with fewer batches leave the loop first, and nothing else explains the silence",
            evidence=(each,),
            ranks=(each.fact.rank,) if each.fact.rank is not None else (),
            fixes=(
                Fix(do="give every rank the same number of batches: drop the remainder, or stop all at the shortest"),
                Fix(do="count what each rank is fed", command="keepstep check data --ranks N DATA"),
            ),
        )
