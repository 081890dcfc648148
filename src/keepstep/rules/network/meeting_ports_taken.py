# SPDX-License-Identifier: Apache-2.0
"""NET103: rank 0 found no port for the meeting of the check."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import MeetingPortsTaken
from keepstep.core.finding import Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import listing


@rule(id="NET103", cause=Cause.NETWORK_PORT_IN_USE, needs=(MeetingPortsTaken,), severity=Severity.WARNING)
def meeting_ports_taken(seen: EvidenceSet) -> Iterator[Found]:
    """Every port on which rank 0 could have received the other processes of the check is taken.

    ## What it looks like
    The other processes of the check cannot reach rank 0.

    ## Why it happens
    Other checks or programs on this host listen there.

    ## How we know
    The kernel refused to open the ports.

    ## What to do
    Name a port that is free.

    ## When this is wrong
    The job itself is not concerned: its own ports are looked at apart.
    """
    for each in seen.all(MeetingPortsTaken):
        yield Found(
            title=f"rank 0 cannot receive the others: port {listing(map(str, each.fact.ports))} taken",
            because="other programs listen there; nothing between the processes could be looked at",
            evidence=(each,),
            fixes=(
                Fix(
                    do="name a port that is free, in every process",
                    command="keepstep check --meet HOST_OF_RANK_0:24500",
                ),
            ),
        )
