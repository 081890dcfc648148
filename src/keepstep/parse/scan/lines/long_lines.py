# SPDX-License-Identifier: Apache-2.0
"""A part of a line that is too long to read whole.

Cuts are marked, so no pattern takes them for the beginning or end of a line.
"""

from __future__ import annotations

LONGEST_BEFORE = 2 << 10
"""How much of what precedes a block is looked at, half from each end."""
NEAR = 4 << 10
"""How much of a line longer than twice this is read before and after a hit."""


def ends_of(text: str) -> str:
    """What a long text begins and ends with."""
    half = LONGEST_BEFORE // 2 - 1
    return f"{text[:half]}…{text[-half:]}" if len(text) > LONGEST_BEFORE else text


def near(text: str, place: int) -> str:
    """What is around a place of a long line, with the cuts marked."""
    low, high = max(0, place - NEAR), place + NEAR
    return ("…" if low else "") + text[low:high] + ("…" if high < len(text) else "")
