# SPDX-License-Identifier: Apache-2.0
"""SLO202: what a rank sends waits for the network."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    SendsSlowly,
    Severity,
    ranks,
    ranks_of,
    rule,
    size,
)


@rule(
    id="SLO202",
    cause=Cause.SLOW_NETWORK_BOUND,
    needs=(SendsSlowly,),
    severity=Severity.WARNING,
    confidence=Confidence.ESTABLISHED,
)
def data_waits_for_the_network(seen: EvidenceSet) -> Findings:
    """What ranks send to another host waits for the network, which carries less than 50 Mbit/s.

    ## What it looks like
    Every step takes many times as long as it should, on all ranks, and nothing fails.

    ## Why it happens
    A network card negotiated a lower speed, a shaper limits the rate, an uplink is saturated, packets are lost, or the
    traffic takes another interface than intended.

    ## How we know
    The kernel of the rank's host counts for each connection how long something was on its way, how long the other side
    had no room for it, and how much was confirmed. For 20 s and more, something was on its way for 40 % of the time or
    more, the other side had room, and less than 50 Mbit/s was carried.

    ## What to do
    Measure the link between these two hosts, and look at the network card's speed and error counters on both.

    ## When this is wrong
    When a part of the model is meant to train over a slow link, as between two sites.
    """
    waits = seen.all(SendsSlowly)
    if not waits:
        return
    first = min(waits, key=lambda each: each.fact.bytes_s)
    worst, mine = first.fact, ranks_of((first,))
    rate = f"{size(round(worst.bytes_s))}/s"
    others = [rank for rank in ranks_of(tuple(waits)) if rank not in mine]
    also = f", and {ranks(others)} had to wait too" if others else ""
    yield Found(
        title=f"the network is slow: what {ranks(mine)} sent to {worst.peer} went at {rate}{also}",
        because=f"in {worst.busy:.0%} of {worst.seconds:.0f} s something was on its way, and the other side had room",
        evidence=tuple(waits[:8]),
        fixes=(
            Fix(do="measure the links between the hosts", command="keepstep check network"),
            Fix(do="see the speed and the errors of the network cards on both hosts", command="ip -s link"),
        ),
    )
