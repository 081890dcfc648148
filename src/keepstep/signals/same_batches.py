# SPDX-License-Identifier: Apache-2.0
"""Which ranks were fed the same batches, by hashes of a few of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FIRST = 4
"""The first batches of a rank, which are compared as one."""
ENOUGH = 2
"""Batches that must be the same, and different from each other: constant data says nothing."""
LATEST = 3
"""The same for batches further on, where the first ones differ."""

Hashes = Mapping[str, str]
"""For each batch, by its name (``batch 1``, ``epoch 2``, ``step 46``) and in the order of training, its hash."""


@dataclass(frozen=True, slots=True)
class FedAlikeRanks:
    """Ranks that were fed the same, and in which batches that shows."""

    ranks: tuple[int, ...]
    batches: tuple[str, ...]


def fed_alike(fed: Mapping[int, Hashes]) -> tuple[FedAlikeRanks, ...]:
    """Groups of ranks that were fed the same batches at the same time, the largest first.

    The same batches in another order are no finding: each rank may shuffle all of a small data set by itself.
    """
    holders: dict[tuple[str, str], list[int]] = {}
    groups: dict[int, list[int]] = {}
    batches: dict[int, tuple[str, ...]] = {}
    for rank in sorted(fed):
        leaders = dict.fromkeys(leader for each in fed[rank].items() for leader in holders.get(each, ()))
        for leader in leaders:
            found = _agreeing(fed[leader], fed[rank])
            if found:
                groups[leader].append(rank)
                batches[leader] = min(batches.get(leader, found), found, key=len)
                break
        else:
            groups[rank] = [rank]
            for each in fed[rank].items():
                holders.setdefault(each, []).append(rank)
    several = [FedAlikeRanks(tuple(ranks), batches[leader]) for leader, ranks in groups.items() if len(ranks) > 1]
    return tuple(sorted(several, key=lambda each: (-len(each.ranks), each.ranks)))


def _agreeing(one: Hashes, other: Hashes) -> tuple[str, ...]:
    """The batches that show that two ranks were fed the same; none where they were not, or it is not certain."""
    common = [name for name in one if name in other]
    first = [name for name in common if name.startswith("batch ")][:FIRST]
    for names, least in ((first, ENOUGH), (common[-LATEST:], LATEST)):
        if len({one[name] for name in names}) >= least and all(one[name] == other[name] for name in names):
            return tuple(names)
    return ()
