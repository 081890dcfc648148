# SPDX-License-Identifier: Apache-2.0
"""NET107: a link between two hosts is far slower than the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median

from keepstep.model.facts import LinkProbed, usual_rate
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, Severity, count, rule
from keepstep.rules.network._links import Link, ranks_at

BEHIND = 4.0
"""A link is slow when its rate is this many times below the cluster's median."""
HOPELESS = 20.0
"""This many times below is as bad as broken: every step waits for its slowest link."""
LATE = 8.0
LATE_S = 0.003
FLOOR_BYTES_S = 6.25e6
"""50 Mbit/s: no network fit for training is slower, whatever the other links carry."""
MOST_LINKS = 8


@rule(id="NET107", cause=Cause.NETWORK_TIMEOUT_SLOW, needs=(LinkProbed,), severity=Severity.WARNING)
def slow_link(seen: EvidenceSet) -> Findings:
    """One link is far slower than the other links of the cluster, or one host is slow on all its links.

    ## What it looks like
    The job trains at a fraction of its speed, or a collective times out, and no log says why: in a ring, every step
    waits for its slowest link.

    ## Why it happens
    A network card negotiated a lower speed, a cable or transceiver is bad, an uplink is saturated, a shaper limits the
    rate, or the traffic takes another interface than intended.

    ## How we know
    The link's rate was measured twice, the second time with almost no other traffic from the check, and stayed at a
    quarter of the cluster's median or less. A cluster of two hosts has no median: there, the two directions are
    compared with each other and with 50 Mbit/s.

    ## What to do
    Check the network card's speed and error counters on the host that the finding names. Measure again with iperf3.

    ## When this is wrong
    Hosts that are far apart on purpose (two sites) always have slower links.
    """
    rates = _rates(seen)
    if not rates:
        return
    usual = usual_rate([first for first, _ in rates.values()], len({source for source, _ in rates}))
    slow = _slow(seen, rates, usual)
    evidence: dict[Link, list[Evidence[LinkProbed]]] = defaultdict(list)
    for each in seen.all(LinkProbed):
        if each.fact.rate_bytes_s is not None:
            evidence[each.fact.source, each.fact.target].append(each)
    left = dict(slow)
    for host in dict.fromkeys(end for link in slow for end in link):
        links = [link for link in rates if host in link]
        mine = [link for link in links if link in left]
        directions = [end for end in (0, 1) if _most([link for link in links if link[end] == host], slow)]
        if len(links) < 4 or not directions or not mine:
            continue
        for link in mine:
            del left[link]
        worst = sorted(mine, key=lambda link: slow[link])
        way = "" if len(directions) == 2 else " to send" if directions == [0] else " to receive"
        yield _found(
            f"{host} is slow{way} on {count(len(mine), 'link')}: "
            f"{_mbit(slow[worst[0]])} against {_mbit(usual)} between the others",
            [e for link in worst for e in evidence[link]],
            slow[worst[0]],
            usual,
            host,
            tuple(
                sorted(
                    {
                        rank
                        for e in seen.all(LinkProbed)
                        for name, rank in _ends(e.fact)
                        if name == host and rank is not None
                    }
                )
            ),
        )
    yield from _pairs(left, evidence, rates, usual)
    yield from _late(seen)


def _pairs(
    left: dict[Link, float],
    evidence: dict[Link, list[Evidence[LinkProbed]]],
    rates: dict[Link, tuple[float, float]],
    usual: float,
) -> Findings:
    shown = 0
    for link in sorted(left, key=lambda link: left[link]):
        if link not in left:
            continue
        both = link[::-1] in left
        one, other = link
        against = usual if len(rates) > 2 else max(rate for rate, _ in rates.values())
        compared = (
            f"{_mbit(against)} in the other direction"
            if len(rates) == 2 and not both
            else f"a median of {_mbit(against)}"
        )
        if len(rates) == 2 and both:
            compared = "the 50 Mbit/s that training needs at least"
        pieces = [*evidence[link], *(evidence[link[::-1]] if both else [])]
        ends = f"between {one} and {other}" if both else f"from {one} to {other}"
        yield _found(
            f"the link {ends} carries {_mbit(left[link])}, against {compared}", pieces, left[link], against, one
        )
        left = {each: rate for each, rate in left.items() if each not in (link, link[::-1])}
        shown += 1
        if shown == MOST_LINKS:
            return


def _late(seen: EvidenceSet) -> Findings:
    """Links whose answers come late, even when measured again."""
    best: dict[Link, float] = {}
    again: set[Link] = set()
    pieces: dict[Link, list[Evidence[LinkProbed]]] = defaultdict(list)
    for each in seen.all(LinkProbed):
        fact = each.fact
        if fact.quickest_s is not None:
            link = (fact.source, fact.target)
            best[link] = min(best.get(link, fact.quickest_s), fact.quickest_s)
            pieces[link].append(each)
            if fact.again:
                again.add(link)
    if len(best) < 6:
        return
    usual = median(best.values())
    late = {link: s for link, s in best.items() if link in again and s > max(LATE_S, LATE * usual)}
    for link in sorted(late, key=lambda link: -late[link])[:MOST_LINKS]:
        if link[::-1] in late and link > link[::-1]:
            continue
        yield Found(
            title=f"answers from {link[1]} to {link[0]} take {late[link] * 1e3:.1f} ms, "
            f"against a median of {usual * 1e3:.1f} ms",
            because="even the quickest exchange of two measurements is that late: "
            "the link takes another route or is overloaded",
            evidence=tuple(pieces[link]),
            ranks=ranks_at(pieces[link]),
            fixes=(
                Fix(
                    do="trace the route that the packets take",
                    command=f"tracepath -n {pieces[link][0].fact.address or link[1]}",
                ),
            ),
        )


def _slow(seen: EvidenceSet, rates: dict[Link, tuple[float, float]], usual: float) -> dict[Link, float]:
    """Links that are slow each time; one measured once counts where an end's other slow links stayed slow."""
    again = {(e.fact.source, e.fact.target) for e in seen.all(LinkProbed) if e.fact.again}
    behind = {link: best for link, (_, best) in rates.items() if best < _limit(rates, link, usual)}
    sure = {link: rate for link, rate in behind.items() if link in again}
    refuted = {end for link in again if link not in behind for end in link}
    slow_links = Counter(end for link in sure for end in link)
    for link, rate in behind.items():
        if link not in sure and any(slow_links[end] > 1 and end not in refuted for end in link):
            sure[link] = rate
    return sure


def _rates(seen: EvidenceSet) -> dict[Link, tuple[float, float]]:
    """For each link, the first rate and the best rate of all its measurements."""
    first: dict[Link, float] = {}
    again: dict[Link, float] = {}
    for each in seen.all(LinkProbed):
        fact = each.fact
        if fact.rate_bytes_s is not None:
            into = again if fact.again else first
            into[fact.source, fact.target] = max(into.get((fact.source, fact.target), 0.0), fact.rate_bytes_s)
    return {link: (rate, max(rate, again.get(link, 0.0))) for link, rate in first.items()}


def _limit(rates: dict[Link, tuple[float, float]], link: Link, usual: float) -> float:
    if len(rates) == 2:
        return max(FLOOR_BYTES_S, rates[link[::-1]][1] / (2 * BEHIND) if link[::-1] in rates else 0.0)
    return max(FLOOR_BYTES_S, usual / BEHIND)


def _most(links: list[Link], slow: dict[Link, float]) -> bool:
    return len(links) > 1 and sum(link in slow for link in links) * 2 > len(links)


def _found(
    title: str,
    evidence: list[Evidence[LinkProbed]],
    rate: float,
    usual: float,
    host: str,
    ranks: tuple[int, ...] | None = None,
) -> Found:
    hopeless = rate * HOPELESS < usual or rate < FLOOR_BYTES_S
    return Found(
        title=title,
        because="measured again, with almost no other traffic from the check, it is still that slow; "
        "every collective waits for its slowest link",
        evidence=tuple(evidence),
        ranks=ranks_at(evidence) if ranks is None else ranks,
        severity=Severity.FATAL if hopeless else None,
        fixes=(
            Fix(
                do=f"on {host}, check the network card's speed and error counters",
                command="ethtool eth0 | grep -iE 'speed|duplex'; ip -s link; tc qdisc show",
            ),
            Fix(
                do="measure that link with another tool (iperf3 -s on the other host)",
                command=f"iperf3 -c {evidence[0].fact.address or evidence[0].fact.target}",
            ),
        ),
    )


def _ends(fact: LinkProbed) -> tuple[tuple[str, int | None], ...]:
    return ((fact.source, fact.source_rank), (fact.target, fact.target_rank))


def _mbit(rate: float) -> str:
    mbit = rate * 8 / 1e6
    return (
        f"{mbit / 1000:,.1f} Gbit/s" if mbit >= 1000 else f"{mbit:,.1f} Mbit/s" if mbit < 20 else f"{mbit:,.0f} Mbit/s"
    )
