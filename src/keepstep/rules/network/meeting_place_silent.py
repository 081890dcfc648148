# SPDX-License-Identifier: Apache-2.0
"""NET052: nothing answered at the address where the ranks meet."""

from __future__ import annotations

from keepstep.model.facts import RanksArriving
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, duration, rule
from keepstep.rules.asking.waits_at_start import still_waiting


@rule(
    id="NET052",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(RanksArriving,),
    confidence=Confidence.HYPOTHESIS,
    standing=Standing.SYMPTOM,
    explains=(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, Cause.NETWORK_TIMEOUT_SLOW),
)
def meeting_place_silent(seen: EvidenceSet) -> Findings:
    """Nothing answered at the address where the ranks should meet.

    ## What it looks like
    The start never ends, or ends with a time-out after minutes.

    ## Why it happens
    The address is wrong, rank 0 was not started there or has failed, or a firewall drops the packets.

    ## How we know
    While a rank waited, its guard tried the address itself, and nothing answered. Which of the three reasons it is
    cannot be seen from there.

    ## What to do
    Check from the waiting host that the name resolves and the port answers, and that rank 0 is running.

    ## When this is wrong
    Rank 0 started after the last attempt.
    """
    found = [
        e
        for e in still_waiting(seen)
        if e.fact.answers is False and not (e.fact.here and e.fact.missing) and not e.fact.elsewhere
    ]
    if not found:
        return
    last = max(found, key=lambda e: e.fact.seconds)
    host, _, port = last.fact.at.rpartition(":")
    yield Found(
        title=f"nothing answered at {last.fact.at}, where the ranks should meet, for {duration(last.fact.seconds)}",
        because="the address is wrong, rank 0 is not running there, or the connection is blocked",
        evidence=tuple(found[-4:]),
        fixes=(
            Fix(do="try the address from the waiting host", command=f"getent hosts {host} && nc -vz {host} {port}"),
        ),
    )
