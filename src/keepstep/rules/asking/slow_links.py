# SPDX-License-Identifier: Apache-2.0
"""Pairs of ranks that exchange far less than their kind of link gives: one finding for each, or for the rank in all."""

from __future__ import annotations

from keepstep.base.wording import size as say_size
from keepstep.model.facts import CollectiveTried
from keepstep.rules.api import EvidenceSet, Findings, Fix, Found, count, ranks
from keepstep.signals.pair_rates import PairRate, pair_rates, slow_pairs, usual_of

OF_GPUS = ("NVLink", "PCIe")
MOST = 4


def slow_links(seen: EvidenceSet, *, of_gpus: bool) -> Findings:
    tried = [each for each in seen.all(CollectiveTried) if each.fact.pair]
    facts = [each.fact for each in tried]
    slow = [each for each in slow_pairs(facts) if (each.medium in OF_GPUS) == of_gpus]
    rates = pair_rates(facts)
    while slow:
        worst = slow[0]
        first, second = (_with(rank, slow) for rank in worst.pair)
        together = max(first, second, key=len)
        named: tuple[int, ...] = worst.pair
        who = ranks(named)
        if len(together) > 1:
            named = (worst.pair[0 if together is first else 1],)
            who = f"{ranks(named)} with {ranks(r for each in together for r in each.pair if r not in named)}"
        slow = [each for each in slow if each not in together]
        pairs = [each.pair for each in together]
        yield Found(
            title=f"{who}: {_rate(worst.bytes_s)} by {worst.medium}, {_against(worst, rates)}",
            because=f"{count(len(together), 'pair')} stayed that slow when no other pair was at work",
            evidence=tuple(each for each in tried if each.fact.again and each.fact.pair in pairs)[:MOST],
            ranks=named,
            fixes=_fixes(worst),
        )


def _with(rank: int, slow: list[PairRate]) -> list[PairRate]:
    return [each for each in slow if rank in each.pair]


def _against(slow: PairRate, rates: list[PairRate]) -> str:
    if slow.bytes_s < slow.least:
        return f"which says {_rate(slow.gives)}"
    return f"against {_rate(usual_of(rates, slow.medium) or 0.0)} of the usual pair"


def _rate(bytes_s: float) -> str:
    return f"{say_size(bytes_s)}/s"


def _fixes(slow: PairRate) -> tuple[Fix, ...]:
    if slow.medium in OF_GPUS:
        return (
            Fix(do="look at the state of the links", command="nvidia-smi nvlink -s; nvidia-smi topo -m"),
            Fix(do="see which transport NCCL takes", command="NCCL_DEBUG=INFO keepstep check collectives"),
        )
    if slow.medium == "loopback":
        return (Fix(do="see what else uses the processors of that host", command="keepstep check resources"),)
    return (Fix(do="measure the link without the framework", command="keepstep check network"),)
