# SPDX-License-Identifier: Apache-2.0
"""Which pairs of ranks exchange far less than their kind of link gives, or than other pairs of that kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from keepstep.model.facts.collectives import CollectiveTried
from keepstep.model.facts.links import usual_rate

BEHIND = 4.0
"""So many times less than the usual pair of its kind."""
FEWEST = 3
"""Of fewer pairs nobody says what is usual."""
SHARE = {"ethernet": 4.0, "InfiniBand": 8.0, "RoCE": 8.0, "PCIe": 8.0, "NVLink": 16.0}
"""So many times less than the link itself says that it gives (assumed): one collective never reaches all of it."""
SOCKETS = 1.25e9
"""Nobody asks more of one process that writes to sockets."""


@dataclass(frozen=True)
class PairRate:
    pair: tuple[int, ...]
    medium: str
    bytes_s: float
    gives: float = 0.0
    """What the link says; 0: it does not."""

    @property
    def least(self) -> float:
        """It is far below its kind with less; 0 where that is not known."""
        gives = min(self.gives, SOCKETS) if self.medium == "ethernet" else self.gives
        return gives / SHARE[self.medium] if self.medium in SHARE else 0.0


def usual_of(rates: Sequence[PairRate], medium: str) -> float | None:
    """What a pair of this kind gives; None where there are too few."""
    same = [each for each in rates if each.medium == medium]
    among = len({rank for each in same for rank in each.pair})
    return usual_rate([each.bytes_s for each in same], among) if len(same) >= FEWEST else None


def far_below(rates: Sequence[PairRate]) -> list[PairRate]:
    """The slowest first."""
    usual = {medium: usual_of(rates, medium) or 0.0 for medium in {each.medium for each in rates}}
    slow = [each for each in rates if each.bytes_s < max(each.least, usual[each.medium] / BEHIND)]
    return sorted(slow, key=lambda each: (each.bytes_s, each.pair))


def pair_rates(facts: Iterable[CollectiveTried], *, again: bool = False) -> list[PairRate]:
    """Of each pair, by the slower of its two ranks; ``again``: of those that were tried once more, alone."""
    slower: dict[tuple[int, ...], CollectiveTried] = {}
    for fact in facts:
        if fact.pair and fact.medium and fact.again == again:
            known = slower.get(fact.pair)
            if known is None or fact.median_s > known.median_s:
                slower[fact.pair] = fact
    return [
        PairRate(pair, fact.medium, fact.size / fact.median_s, fact.gives_bytes_s)
        for pair, fact in slower.items()
        if fact.median_s
    ]


def slow_pairs(facts: Sequence[CollectiveTried]) -> list[PairRate]:
    """Those far below their kind both times, with the better of their rates."""
    rates = pair_rates(facts)
    alone = {each.pair: each for each in pair_rates(facts, again=True)}
    now = [max(each, alone.get(each.pair, each), key=lambda one: one.bytes_s) for each in rates]
    return [each for each in far_below(now) if each.pair in alone]
