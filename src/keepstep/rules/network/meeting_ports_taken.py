# SPDX-License-Identifier: Apache-2.0
"""NET103: rank 0 found no free port for the processes of the check to meet at."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, MeetingPortsTaken, Severity, listing, rule


@rule(id="NET103", cause=Cause.NETWORK_PORT_IN_USE, needs=(MeetingPortsTaken,), severity=Severity.WARNING)
def meeting_ports_taken(seen: EvidenceSet) -> Findings:
    """Every port at which rank 0 could have met the other processes of the check is taken.

    ## What it looks like
    The other processes of the check cannot reach rank 0.

    ## Why it happens
    Other checks or programs on this host are listening on these ports.

    ## How we know
    The kernel refused to open the ports.

    ## What to do
    Name a free port.

    ## When this is wrong
    The job itself is not affected: its own ports are checked separately.
    """
    for each in seen.all(MeetingPortsTaken):
        yield Found(
            title=f"rank 0 cannot meet the other ranks: port {listing(map(str, each.fact.ports))} taken",
            because="other programs are listening there, so nothing between the processes could be checked",
            evidence=(each,),
            fixes=(
                Fix(
                    do="name a free port, the same in every process",
                    command="keepstep check --meet HOST_OF_RANK_0:24500",
                ),
            ),
        )
