# SPDX-License-Identifier: Apache-2.0
"""SYN212: one rank never printed what all others printed near their end."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, MessageMissing, Standing, rule


@rule(
    id="SYN212",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(MessageMissing,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.GUESS,
)
def never_said_it(seen: EvidenceSet) -> Findings:
    """All ranks but one printed a message near the end of their logs; the others seem to wait for that one.

    ## What it looks like
    Fifteen of sixteen workers print `Saving checkpoint for step 10000`; the sixteenth never does, and the logs stop.
    Nobody reports an error.

    ## Why it happens
    The missing rank is stuck, or gone without a word, before the place where the others are. They wait for it there.

    ## How we know
    The message came equally often from every other rank, among their last lines. Nothing says that the run ended.

    ## What to do
    Look at that rank: is its process alive, and where is it?

    ## When this is wrong
    Only some ranks print the message by design, or the log of that rank was cut off.
    """
    found = {e.fact.rank: e for e in seen.all(MessageMissing)}
    if len(found) != 1:
        return
    rank, first = next(iter(found.items()))
    more = tuple(e for e in seen.all(MessageMissing) if e is not first)
    yield Found(
        title=f"rank {rank} never printed what the {first.fact.printed} other ranks printed near their end",
        because=f"{first.fact.printed} of {first.fact.of} ranks printed it, and nothing says that the run went on",
        evidence=(first, *more[:3]),
        ranks=(rank,) if rank is not None else (),
        fixes=(Fix(do="see where that rank is, on its host", command="keepstep why --live"),),
    )
