# SPDX-License-Identifier: Apache-2.0
"""Which replicas of a tensor differ, by fingerprints of its bits. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

SHORT = 8
"""Characters of a tensor's fingerprint when tensors are compared one by one: that some differ is known by then."""
NOBODY: Mapping[int, Set[int]] = {}


@dataclass(frozen=True, slots=True)
class Apart:
    """The tensors that differ, in the order of the model, and the replicas that are odd in them.

    Where no majority agrees, all replicas are named: one of them is wrong.
    """

    tensors: tuple[int, ...]
    odd: tuple[int, ...]
    majority: bool


def digest(sums: Sequence[int]) -> str:
    """A tensor's sums as one short text."""
    return hashlib.blake2b(repr(tuple(sums)).encode(), digest_size=SHORT // 2).hexdigest()


def apart(
    digests: Mapping[int, Sequence[str]], leave_out: Set[int] = frozenset(), gone: Mapping[int, Set[int]] = NOBODY
) -> tuple[Apart, ...]:
    """Compare the tensors of all replicas, each a list of fingerprints in the same order: one answer for each set of
    odd replicas, in the order of their first tensor. ``gone``: replicas that no longer count, by tensor."""
    lists = list(digests.values())
    found: dict[tuple[tuple[int, ...], bool], list[int]] = {}
    for place in range(min(map(len, lists))):
        if place not in leave_out and any(each[place] != lists[0][place] for each in lists):
            held = {who: each[place] for who, each in digests.items() if who not in gone.get(place, ())}
            if len(set(held.values())) > 1:
                found.setdefault(odd_ones(held), []).append(place)
    return tuple(Apart(tuple(tensors), odd, majority) for (odd, majority), tensors in found.items())


def odd_ones(values: Mapping[int, str]) -> tuple[tuple[int, ...], bool]:
    """Those that do not hold what more than half of them hold; all of them where nothing is held by so many."""
    held: dict[str, list[int]] = {}
    for who, value in values.items():
        held.setdefault(value, []).append(who)
    most = max(held.values(), key=len)
    if 2 * len(most) > len(values):
        return tuple(sorted(set(values) - set(most))), True
    return tuple(sorted(values)), False
