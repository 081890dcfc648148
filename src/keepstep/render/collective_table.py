# SPDX-License-Identifier: Apache-2.0
"""What collectives took: a table of the slowest rank's times, and what pairs exchange by each kind of link."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from keepstep.base.wording import count
from keepstep.base.wording import size as say_size
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.collectives import CollectiveTried
from keepstep.signals.pair_rates import pair_rates


def render_collective_table(seen: EvidenceSet, bytes_per_step: int = 0, step_s: float = 0.0) -> str:
    """A line for each collective between all ranks: the smallest and the largest; nothing where none ended.

    With the bytes that a step reduces, also what that takes, and its share of a step of ``step_s``.
    """
    facts = [each.fact for each in seen.all(CollectiveTried)]
    lines = []
    for operation in dict.fromkeys(fact.operation for fact in facts):
        tried = [fact for fact in facts if fact.operation == operation]
        small, large = _slowest(tried, smallest=True), _slowest(tried, smallest=False)
        rate = large.size / large.median_s / 1e9 if large.median_s else 0.0
        times = f"{_time(small):>18}{_time(large):>22}  {rate:6.2f} GB/s"
        lines.append(f"{operation:15}{times}  {'WRONG' if any(fact.wrong for fact in tried) else 'right'}")
    if not lines:
        return ""
    below = [*_links(facts), *_of_a_step(facts, bytes_per_step, step_s)]
    return "\n".join([f"{'':15}{'smallest':>18}{'largest':>22}", *lines, *below, "", ""])


def _of_a_step(facts: Sequence[CollectiveTried], bytes_per_step: int, step_s: float) -> list[str]:
    """What the sums of one step take, by the smallest and the largest all_reduce between all ranks."""
    tried = [fact for fact in facts if fact.operation == "all_reduce" and fact.groups == 1 and not fact.pair]
    if not bytes_per_step or not tried:
        return []
    small, large = _slowest(tried, smallest=True), _slowest(tried, smallest=False)
    per_byte = (large.median_s - small.median_s) / (large.size - small.size) if large.size > small.size else 0.0
    if per_byte <= 0:
        per_byte = large.median_s / large.size
    takes = small.median_s + per_byte * bytes_per_step
    share = f", {takes / step_s:.0%} of a step of {step_s:g} s" if step_s else ""
    return [f"summing {say_size(bytes_per_step)} takes about {takes:.3g} s{share}, if nothing overlaps"]


def _slowest(tried: Sequence[CollectiveTried], *, smallest: bool) -> CollectiveTried:
    """Between all ranks, the rank that it took longest."""
    of_all = [fact for fact in tried if fact.groups == 1] or list(tried)
    size = (min if smallest else max)(fact.size for fact in of_all)
    return max((fact for fact in of_all if fact.size == size), key=lambda fact: fact.median_s)


def _time(fact: CollectiveTried) -> str:
    return f"{say_size(fact.size)} {fact.median_s * 1e3:.3g} ms"


def _links(facts: Sequence[CollectiveTried]) -> list[str]:
    """For each kind of link: the usual pair and the slowest."""
    rates = pair_rates(facts)
    lines = []
    for medium in dict.fromkeys(each.medium for each in rates):
        same = sorted((each for each in rates if each.medium == medium), key=lambda each: each.bytes_s)
        line = f"{count(len(same), 'pair')} by {medium}: {_rate(median(each.bytes_s for each in same))}"
        if len(same) > 1:
            line += f", the slowest {_rate(same[0].bytes_s)} (ranks {same[0].pair[0]} and {same[0].pair[1]})"
        lines.append(line)
    return lines


def _rate(bytes_s: float) -> str:
    return f"{bytes_s / 1e9:.3g} GB/s"
