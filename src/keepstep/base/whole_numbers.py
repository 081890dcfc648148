# SPDX-License-Identifier: Apache-2.0
"""Whole numbers out of other people's text. Pure.

``str.isdigit`` says yes to ``²``, which ``int`` refuses, and ``int`` refuses more than 4,300 digits.
"""

from __future__ import annotations

MOST_DIGITS = 18


def whole(text: object) -> int | None:
    """The number in the text, if it is nothing but up to 18 ASCII digits."""
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS:
        return int(text)
    return None
