# SPDX-License-Identifier: Apache-2.0
"""Every host against every other, all at the same time, and no host twice at once.

The circle method: one host stays, the others walk around it, and after N-1 rounds (N if N is odd: one rests) every two
have met. In a round, each pair is on its own; each side calls the other in turn, because a link may be broken in one
direction only. So N hosts need 2(N-1) steps. A step takes about 0.1 s on a healthy network (nine echoes, one full
packet, 50 ms of bulk), whatever N is, so the cost per host grows linearly: 62 steps or 6 s for 32 hosts, 20 s for 100,
200 s for 1,000.

For thousands, ``--sample R`` plays R of the N-1 rounds, chosen at random by the job's identity (so all hosts agree, and
a second run gives the same). Each host then meets R others, in 2R steps whatever N is. What that finds:

- a host whose links are all bad: always, from R = 1 on; from R = 3 on, it is distinguished from a bad link;
- a host with a fraction f of its links bad: with probability 1 - (1 - f)^R: f = 10 % in 93 % of cases for R = 25;
- one bad link among N(N-1)/2: with probability R / (N-1): 5 % for 1,000 hosts and R = 50.

A few rounds find a bad host or rack, or a bad cable between two switches that affects many pairs. A single bad pair
needs all rounds.

Many hosts at once load the switches, as the job will, and load the processor where hosts are simulated. So a rate far
below the median is measured again, up to twice, for longer and with few others on the network, before any rule may call
it slow; and time that a process spent waiting for its processor does not count.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed, usual_rate

Pair = tuple[int, int]
Play = Callable[[Sequence[Pair], bool], list[Evidence[Fact]]]
"""Makes the first of each pair call the second, all at once; True: measure longer."""

SUSPECT = 4.0
"""A link is measured again when its rate is this many times below the median,"""
SUSPECT_LATENCY = 8.0
"""or its latency this many times above the median."""
HOPELESS = 40.0
"""A link that stays this many times below is not measured a third time."""
LATE_S = 0.002
"""Less than this is never late: a busy processor causes as much."""
FEW = 3
"""Pairs that are measured again at the same time."""
MOST_AGAIN = 24
TIMES_AGAIN = 2
ENOUGH = 3
FLOOR_BYTES_S = 12.5e6
"""100 Mbit/s: a slower link is measured again, however slow the others are."""


def how_many(players: int) -> int:
    """Rounds until every two hosts have met."""
    return players - 1 + players % 2 if players > 1 else 0


def round_of(players: int, turn: int) -> list[Pair]:
    """One round: no host occurs in it twice; over all rounds, every two meet once."""
    last = players + players % 2 - 1
    pairs = [(turn, last)] + [((turn + k) % last, (turn - k) % last) for k in range(1, (last + 1) // 2)]
    return [(min(a, b), max(a, b)) for a, b in pairs if max(a, b) < players]


def rounds(players: int, most: int | None = None, seed: str = "") -> Iterator[list[Pair]]:
    """All rounds, or this many of them, chosen by ``seed``."""
    turns = list(range(how_many(players)))
    if most is not None and most < len(turns):
        turns = sorted(random.Random(seed).sample(turns, max(1, most)))
    return (round_of(players, turn) for turn in turns)


def hold(players: int, play: Play, most: int | None = None, seed: str = "") -> list[Evidence[Fact]]:
    """Play all rounds, then measure again where needed."""
    found: list[Evidence[Fact]] = []
    for pairs in rounds(players, most, seed):
        found += play(pairs, False)
        found += play([(b, a) for a, b in pairs], False)
    return found


def measured_again(
    found: Sequence[Evidence[Fact]], number: Callable[[LinkProbed], Pair | None], play: Play
) -> list[Evidence[Fact]]:
    """A second, longer look at the slow links, a few at a time, the worst first; the best result counts."""
    more: list[Evidence[Fact]] = []
    for turn in range(TIMES_AGAIN):
        behind = suspects([*found, *more], hopeless=turn == 0)
        pairs = [pair for fact in behind if (pair := number(fact)) is not None]
        for few in in_turns(_spread(pairs)):
            more += play(few, True)
    return more


def _spread(pairs: list[Pair]) -> list[Pair]:
    """The first of them, with no more of one host than it takes to tell a bad host from a bad link."""
    busy: Counter[int] = Counter()
    chosen: list[Pair] = []
    for pair in dict.fromkeys(pairs):
        if len(chosen) < MOST_AGAIN and all(busy[host] < ENOUGH for host in pair):
            chosen.append(pair)
            busy.update(pair)
    return chosen


def suspects(found: Sequence[Evidence[Any]], hopeless: bool = True) -> list[LinkProbed]:
    """Links far behind the others in rate or latency each time they were measured, the worst first.

    Without the ``hopeless`` ones: being that far behind twice is not chance.
    """
    best: dict[tuple[str, str], LinkProbed] = {}
    first: list[float] = []
    for fact in (e.fact for e in found):
        if isinstance(fact, LinkProbed) and fact.rate_bytes_s is not None:
            if not fact.again:
                first.append(fact.rate_bytes_s)
            known = best.get((fact.source, fact.target))
            if known is not None:
                rate, quickest = (
                    max(known.rate_bytes_s or 0.0, fact.rate_bytes_s),
                    min(known.quickest_s or 0.0, fact.quickest_s or 0.0),
                )
                fact = replace(fact, rate_bytes_s=rate, quickest_s=quickest)
            best[fact.source, fact.target] = fact
    links = list(best.values())
    if not links:
        return []
    usual = usual_rate(first, len({link.source for link in links}))
    late = max(LATE_S, SUSPECT_LATENCY * median(link.quickest_s or 0.0 for link in links))
    slow = [link for link in links if (link.rate_bytes_s or 0.0) < max(usual / SUSPECT, FLOOR_BYTES_S)]
    slow = [link for link in slow if hopeless or (link.rate_bytes_s or 0.0) > usual / HOPELESS]
    slow.sort(key=lambda link: link.rate_bytes_s or 0.0)
    behind = sorted(
        (link for link in links if (link.quickest_s or 0.0) > late), key=lambda link: -(link.quickest_s or 0.0)
    )
    return [*slow, *(link for link in behind if link not in slow)]


def in_turns(pairs: list[Pair]) -> Iterator[list[Pair]]:
    """The pairs in small groups in which no host occurs twice."""
    left = pairs
    while left:
        group: list[Pair] = []
        later: list[Pair] = []
        for pair in left:
            busy = {host for each in group for host in each}
            (later if len(group) >= FEW or busy & set(pair) else group).append(pair)
        yield group
        left = later
