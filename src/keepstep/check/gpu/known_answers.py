# SPDX-License-Identifier: Apache-2.0
"""What a device must compute and keep, known without it: products of small integers, and patterns in memory.

Both matrices repeat one row, moved on by one place: ``left[i, k] = a[i + k]``, ``right[k, j] = b[k - j]``, modulo their
size. So ``product[i, j]`` depends on ``i + j`` alone, and one multiplication of two long integers gives all of it.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from typing import NamedTuple

EXACT = {
    "float64": (1023, 1 << 53),
    "float32": (15, 1 << 24),
    "tf32": (15, 1 << 24),
    "float16": (3, 1 << 11),
    "bfloat16": (1, 1 << 8),
    "int8": (127, (1 << 31) - 1),
}
"""For each type of number: the largest that the matrices hold, and up to where the results are exact."""
WORD_BITS = 32
PASS = 4
"""Rounds until every bit of a word was alone at one, and alone at zero."""
_SPREAD = 0x9E3779B1
"""Words at the same place of different pieces of memory differ by a multiple of this."""


class Known(NamedTuple):
    """Two rows that make matrices, and the row that makes their product."""

    left: list[int]
    right: list[int]
    product: list[int]


class Pattern(NamedTuple):
    """What every word of memory is set to: the same number, or also its own address."""

    value: int
    address: bool = False

    def of_piece(self, piece: int) -> int:
        """What all words of a piece have in common, as a signed number of 32 bits."""
        return signed(self.value ^ (piece * _SPREAD if self.address else 0))


def signed(word: int) -> int:
    """The lower 32 bits of a number, as a processor reads them."""
    word &= 0xFFFFFFFF
    return word - (1 << WORD_BITS) if word >> (WORD_BITS - 1) else word


def patterns(round_: int) -> Iterator[Pattern]:
    """A quarter of all walking bits, the address, and the inverse of each."""
    for bit in range(round_ % PASS, WORD_BITS, PASS):
        yield Pattern(1 << bit)
        yield Pattern(~(1 << bit))
    yield Pattern(0, address=True)
    yield Pattern(~0, address=True)


def known(dtype: str, size: int, seed: int) -> Known:
    """Random rows whose product has no number that the type cannot hold exactly."""
    largest, exact = EXACT[dtype]
    chance = random.Random(f"{dtype} {seed}")
    while True:
        left, right = (chance.choices(range(-largest, largest + 1), k=size) for _ in range(2))
        product = _correlated(left, right, largest)
        if max(map(abs, product)) <= exact:
            return Known(left, right, product)


def _correlated(left: list[int], right: list[int], largest: int) -> list[int]:
    """The sum of ``left[s + m] * right[m]`` for each s, all indices modulo the size."""
    size = len(left)
    first = int.from_bytes(array("Q", [each + largest for each in left]).tobytes(), "little")
    second = int.from_bytes(array("Q", [each + largest for each in reversed(right)]).tobytes(), "little")
    terms = array("Q", (first * second).to_bytes(16 * size, "little"))
    raised = largest * (sum(left) + sum(right)) + size * largest * largest
    return [terms[s + size - 1] + (terms[s - 1] if s else 0) - raised for s in range(size)]
