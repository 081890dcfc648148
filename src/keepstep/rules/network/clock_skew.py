# SPDX-License-Identifier: Apache-2.0
"""NET109: the clock of a host is off."""

from __future__ import annotations

from collections import Counter
from statistics import median

from keepstep.model.facts import ClockCompared
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, duration, rule

OFF_S = 1.0
"""Smaller differences do no harm: time-outs are longer, and logs are compared with more tolerance."""


@rule(id="NET109", cause=Cause.NETWORK_TIMEOUT_SLOW, needs=(ClockCompared,), severity=Severity.WARNING)
def clock_skew(seen: EvidenceSet) -> Findings:
    """The clock of one host differs from the clocks of the other hosts.

    ## What it looks like
    Leases, tokens and certificates are "not yet valid" or have expired, checkpoints look newer than they are, and the
    logs of several ranks merge in the wrong order.

    ## Why it happens
    The host does not synchronise its clock: chrony or ntpd is not running, or cannot reach its server.

    ## How we know
    The hosts exchanged their times the way NTP does. The error is at most half of the quickest round trip.

    ## What to do
    Start the time service on that host.

    ## When this is wrong
    A program was given a false time on purpose (faketime).
    """
    left = list(seen.all(ClockCompared))
    while (host := _most_alone(left)) is not None:
        pieces = [e for e in left if host in (e.fact.source, e.fact.target)]
        left = [e for e in left if e not in pieces]
        offset = median(e.fact.ahead_s if e.fact.target == host else -e.fact.ahead_s for e in pieces)
        others = {e.fact.source if e.fact.target == host else e.fact.target for e in pieces}
        which = "ahead of" if offset > 0 else "behind"
        rest = f"the clock of {next(iter(others))}" if len(others) == 1 else "the clocks of the other hosts"
        ranks = {e.fact.target_rank if e.fact.target == host else e.fact.source_rank for e in pieces}
        yield Found(
            title=f"the clock of {host} is {duration(abs(offset))} {which} {rest}",
            because="the host does not synchronise its clock with the same source as the others",
            evidence=tuple(pieces[:8]),
            ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
            fixes=(
                Fix(do=f"check on {host} whether its clock is synchronised", command="timedatectl; chronyc tracking"),
                Fix(do="start the time service", command="systemctl enable --now chronyd", safety=Safety.NEEDS_OWNER),
            ),
        )


def _most_alone(clocks: list[Evidence[ClockCompared]]) -> str | None:
    """The host that disagrees with most of the hosts it was compared with; of two equals, the later name."""
    compared: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    for each in clocks:
        off = abs(each.fact.ahead_s) > OFF_S + each.fact.uncertain_s
        for host in (each.fact.source, each.fact.target):
            compared[host] += 1
            apart[host] += off
    alone = [host for host in compared if apart[host] * 2 > compared[host]]
    return max(alone, key=lambda host: (apart[host] / compared[host], host), default=None)
