# SPDX-License-Identifier: Apache-2.0
"""A shuffled order that needs no memory: any place of it can be worked out alone.

A Feistel network permutes the numbers of a power of two; a number that falls outside the range goes through it again
until it falls inside ("cycle walking"). At most half of the numbers lie outside, so two passes are enough on average.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_ROUNDS = 6
"""An even number: the two halves may have different widths, and change places in every round."""


def scrambled(value: int) -> int:
    """64 bits in which every bit depends on every bit of ``value`` (the finaliser of SplitMix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def key_of(seed: int, epoch: int) -> int:
    """64 bits from a seed of any size and an epoch."""
    key = 0
    for number in (seed, epoch):
        sign, number = (1, -number) if number < 0 else (0, number)
        key = scrambled(key ^ sign)
        while True:
            key = scrambled(key ^ (number & _MASK))
            number >>= 64
            if not number:
                break
    return key


class Permutation:
    """The numbers below ``size`` in an order that ``key`` decides. ``permutation[place]`` takes microseconds."""

    __slots__ = ("_high", "_keys", "_low", "size")

    def __init__(self, size: int, key: int) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, not {size}")
        self.size = size
        bits = max((size - 1).bit_length(), 2)
        self._high, self._low = bits // 2, bits - bits // 2
        self._keys = tuple(scrambled(key ^ (round_ << 56)) for round_ in range(_ROUNDS))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> int:
        if not 0 <= place < self.size:
            raise IndexError(f"place {place} of {self.size}")
        place = self._passed(place)
        while place >= self.size:
            place = self._passed(place)
        return place

    def _passed(self, number: int) -> int:
        wide, narrow = self._low, self._high
        left, right = number >> wide, number & ((1 << wide) - 1)
        for key in self._keys:
            left, right = right, left ^ (scrambled(right ^ key) & ((1 << narrow) - 1))
            wide, narrow = narrow, wide
        return (left << wide) | right
