# SPDX-License-Identifier: Apache-2.0
"""Which of many elements can go: all of them at once, and only where that fails fewer, led by how it failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

T = TypeVar("T")


def reduce(
    elements: Iterable[T],
    goes: Callable[[list[T]], bool],
    suspects: Callable[[list[T], int], Collection[T]] = lambda piece, depth: (),
) -> list[T]:
    """What is left, in order. ``goes(piece)`` tries to do without these, and says whether that was the same failure.

    ``suspects(piece, depth)`` is asked just after a piece did not go: which of it are likely needed? The others are
    tried without them, and each refusal in a row asks for a wider circle. Where nothing is suspected the piece is
    halved. If its first half goes, the second is not tried as a whole: that was the piece.
    """
    everything = list(elements)
    left: list[T] = []

    def all_went(piece: list[T], depth: int = 1, *, refused: bool = False) -> bool:
        if not piece or (not refused and goes(piece)):
            return True
        if len(piece) == 1:
            left.extend(piece)
            return False
        near = () if refused else suspects(piece, depth)
        if 0 < len(near) < len(piece):
            others = all_went([each for each in piece if each not in near], 2 * depth)
            all_went([each for each in piece if each in near], refused=others or len(near) == 1)
        else:
            middle = (len(piece) + 1) // 2
            first = all_went(piece[:middle])
            all_went(piece[middle:], refused=first)
        return False

    all_went(everything)
    return [each for each in everything if each in left]
