# SPDX-License-Identifier: Apache-2.0
"""Finds the smallest group of ranks whose collective is still wrong, by leaving ranks out. Pure."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise

PAIR = 2


def smallest(group: Sequence[int]) -> Generator[tuple[int, ...], bool, tuple[int, ...]]:
    """Yields a part of a wrong group, is sent whether that is wrong too, and returns the part that is left in the end.

    Halves are asked first, then quarters, then all but a quarter, and so on: two ranks are found wherever they are.
    """
    found, pieces = tuple(group), 2
    while len(found) > PAIR:
        cuts = [len(found) * n // pieces for n in range(pieces + 1)]
        parts = [found[begin:end] for begin, end in pairwise(cuts)]
        parts += [tuple(each for each in found if each not in part) for part in parts] if pieces > PAIR else []
        for part in parts:
            if PAIR <= len(part) < len(found) and (yield part):
                found, pieces = part, 2
                break
        else:
            if pieces >= len(found):
                break
            pieces = min(len(found), 2 * pieces)
    return found
