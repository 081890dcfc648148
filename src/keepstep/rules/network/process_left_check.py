# SPDX-License-Identifier: Apache-2.0
"""NET114: a process disappeared during the check."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, MemberLeft, Standing, listing, ranks, rule


@rule(id="NET114", cause=Cause.NETWORK_CONNECTION_RESET_PEER_DIED, needs=(MemberLeft,), standing=Standing.SYMPTOM)
def process_left_check(seen: EvidenceSet) -> Findings:
    """A process of the job joined the check and disappeared during it.

    ## What it looks like
    Rank 0 gets no more answers from it.

    ## Why it happens
    It was killed (for memory, by the scheduler, by a user), its host went down, or the connection to it broke.

    ## How we know
    Its connection to rank 0 was closed, or it did not answer within a time that is enough for the slowest host.

    ## What to do
    Read what that process printed, and the kernel log of its host.

    ## When this is wrong
    A user ended the check there by hand.
    """
    left = seen.all(MemberLeft)
    if not left:
        return
    who = [e.fact.rank for e in left if e.fact.rank is not None]
    hosts = list(dict.fromkeys(e.fact.host for e in left))
    yield Found(
        title=f"{ranks(who)} ({listing(hosts[:4])}) disappeared during {left[0].fact.during}",
        because=f"rank 0 lost it: {left[0].fact.how}",
        evidence=left,
        ranks=tuple(who),
        fixes=(
            Fix(do=f"check on {hosts[0]} whether the kernel or the scheduler killed it", command="dmesg -T | tail -50"),
            Fix(do="run the check again"),
        ),
    )
