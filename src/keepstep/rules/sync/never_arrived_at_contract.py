# SPDX-License-Identifier: Apache-2.0
"""SYN204: a rank never arrived where the others are."""

from __future__ import annotations

from keepstep.model.facts import ContractStated, Fact, PeerSilent, RankDoing
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks


@rule(
    id="SYN204",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(PeerSilent,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
)
def never_arrived_at_contract(seen: EvidenceSet) -> Findings:
    """A rank did not arrive where the others are, within the time that they waited for its statement.

    ## What it looks like
    All ranks but one start a step, and hang in it.

    ## Why it happens
    The silent rank took another branch, is still loading or compiling, is stuck, or is dead.

    ## How we know
    Before a new step every rank states what it is about to run; this one did not, then or later.

    ## What to do
    Look at what that rank is doing.

    ## When this is wrong
    The rank was only slow. Where its statement came later, this is not reported.
    """
    came = {(e.fact.subject, e.fact.ordinal, e.who) for e in seen.all(ContractStated)}
    for silent in seen.all(PeerSilent):
        fact = silent.fact
        missing = tuple(rank for rank in fact.missing if (fact.subject, fact.ordinal, rank) not in came)
        if not missing:
            continue
        doing: list[Evidence[Fact]] = [e for e in seen.all(RankDoing) if e.who in missing]
        if seen.all(RankDoing) and all(e.fact.phase == "end" for e in seen.all(RankDoing)):
            continue
        where = f"; rank {doing[0].who} is {doing[0].quote}" if doing else ""
        yield Found(
            title=f"{say_ranks(missing)} never arrived at {fact.subject}, where the other ranks wait",
            because=f"no statement came within {fact.waited_s:.0f} s{where}",
            evidence=(silent, *doing[:3]),
            ranks=missing,
            fixes=(Fix(do="print what that rank is doing", command="keepstep why --live"),),
        )
        return
