# SPDX-License-Identifier: Apache-2.0
"""Who computes wrong, where two ranks got different numbers from the same input and weights. Pure.

The rank whose input it was and its buddy each compute it twice, and a witness once, where there is a third rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDER = 8.0
"""A difference counts from so many times what repeats on one rank differ by."""
NO_BAND: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Computed:
    """A layer's result or a parameter's gradient."""

    name: str
    digest: str
    """Of its bits."""
    sums: tuple[float, ...]
    """Of its numbers, in a few lines, for those that differ in their last bits from one repeat to the next..."""
    size: float
    """... and of how large they are."""


@dataclass(frozen=True, slots=True)
class WhoIsOdd:
    """Whose numbers are odd. ``again``: a repeat on the same rank was odd too."""

    asked: bool
    buddy: bool
    again: bool
    items: tuple[int, ...]


def distance(one: Computed, other: Computed) -> float:
    """How far two results of the same computation are from each other, relative to their size."""
    if one.digest == other.digest:
        return 0.0
    apart = max((abs(a - b) for a, b in zip(one.sums, other.sums, strict=True)), default=0.0)
    found = apart / max(one.size, other.size, 1e-30)
    return max(found, 1e-300) if math.isfinite(found) else math.inf


def differing(
    one: Sequence[Computed], other: Sequence[Computed], bands: Mapping[str, float] = NO_BAND
) -> tuple[int, ...]:
    """What differs by more than its band, in the order in which it was computed."""
    if [each.name for each in one] != [each.name for each in other]:
        return (next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a.name != b.name), 0),)
    pairs = enumerate(zip(one, other, strict=True))
    return tuple(at for at, (a, b) in pairs if distance(a, b) > WIDER * bands.get(a.name, 0.0))


def who_is_odd(
    asked: Sequence[Sequence[Computed]],
    buddy: Sequence[Sequence[Computed]],
    witness: Sequence[Computed] | None,
    bands: Mapping[str, float] = NO_BAND,
) -> WhoIsOdd | None:
    """None: the repeats do not tell; what is computed differs from one repeat to the next."""

    def same(one: Sequence[Computed], other: Sequence[Computed]) -> bool:
        return not differing(one, other, bands)

    items = differing(asked[0], buddy[0], bands)
    steady = same(*asked), same(*buddy)
    if all(steady):
        if witness is None:
            return WhoIsOdd(True, True, True, items)
        with_asked, with_buddy = same(witness, asked[0]), same(witness, buddy[0])
        return WhoIsOdd(with_buddy, with_asked, True, items) if with_asked != with_buddy else None
    if steady[1] and (witness is None or same(witness, buddy[0])):
        return WhoIsOdd(True, False, not same(asked[1], buddy[0]), items)
    if steady[0] and (witness is None or same(witness, asked[0])):
        return WhoIsOdd(False, True, not same(buddy[1], asked[0]), items)
    return None
