# SPDX-License-Identifier: Apache-2.0
"""A part of a line that is too long to be read whole. What is cut is marked, so that no pattern takes it for a line's beginning or end."""

from __future__ import annotations

LONGEST_BEFORE = 2 << 10
"""Of what stands before a block, so much is looked at: the first half and the last of it."""
NEAR = 4 << 10
"""Of a line that is longer than twice this, so much is read before and after a hit."""


def ends_of(text: str) -> str:
    """What a long text begins and ends with."""
    half = LONGEST_BEFORE // 2 - 1
    return f"{text[:half]}…{text[-half:]}" if len(text) > LONGEST_BEFORE else text


def near(text: str, place: int) -> str:
    """What stands around a place of a long line, marked where it was cut: no pattern takes that for a line's beginning or end."""
    low, high = max(0, place - NEAR), place + NEAR
    return ("…" if low else "") + text[low:high] + ("…" if high < len(text) else "")
