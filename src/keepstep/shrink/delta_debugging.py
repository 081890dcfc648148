# SPDX-License-Identifier: Apache-2.0
"""Counter-based delta debugging: which of many elements can go. Pieces become smaller with each round, by a fixed plan.

The sizes follow from the chance that an element is needed, which each refusal raises by the same factor; no
probabilities are kept per element (Zhang et al., 2024, show that counters do as well).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
UNKNOWN, LIKELY = 0.1, 0.5
"""The chance that an element is needed: before anything is known, and where most that could go has gone."""
FACTOR = math.e / (math.e - 1)


def sizes(count: int, chance: float) -> Iterator[int]:
    """The sizes of the pieces of each round; the last is 1."""
    before = 0
    while True:
        size = max(1, min(count, round(-1 / math.log(1 - chance)))) if chance < 1 else 1
        if size != before:
            yield size
        if size == 1:
            return
        before, chance = size, min(chance * FACTOR, 0.999)


def reduce(elements: Sequence[T], goes: Callable[[list[T]], bool], chance: float = UNKNOWN) -> list[T]:
    """What is left. ``goes(piece)`` tries to do without these, and says whether that was the same failure."""
    left = list(elements)
    for size in sizes(len(left), chance):
        end = len(left)
        while end > 0:
            begin = max(0, end - size)
            piece = left[begin:end]
            if piece and goes(piece):
                del left[begin:end]
            end = begin
    return left
