# SPDX-License-Identifier: Apache-2.0
"""Two sums over the bits of an array of NumPy: plain, and with a weight for each place; and whether it is lost."""

from __future__ import annotations

from typing import Any

BLOCK = 1 << 16
"""Words that are multiplied at once: they stay in the processor's cache."""


class ArraySums:
    """``numpy``: the module, as the framework has imported it."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy
        self._weights = numpy.arange(1, 2 * BLOCK, 2, dtype=numpy.int64)

    def of(self, array: Any) -> tuple[int, int, int]:
        """Wrapping, as the processor adds. A changed word changes both, a swapped one the second. The third: how many
        of its first values are NaN or infinite; an exchange that spreads such a value spreads it to all."""
        numpy = self._numpy
        values = numpy.ascontiguousarray(array).reshape(-1)
        raw = values.view(numpy.uint8)
        width = next(each for each in (8, 4, 2, 1) if raw.size % each == 0)
        words = raw.view(f"i{width}")
        plain, placed = 0, 0
        for number, at in enumerate(range(0, words.size, BLOCK)):
            block = words[at : at + BLOCK].astype(numpy.int64, copy=False)
            own = int(block.sum())
            plain += own
            placed += int(numpy.dot(block, self._weights[: block.size])) + 2 * number * own
        first = values[:BLOCK] if "float" in values.dtype.name else values[:0]
        lost = first.size - int(numpy.count_nonzero(numpy.isfinite(first)))
        return plain & (1 << 64) - 1, placed & (1 << 64) - 1, lost
