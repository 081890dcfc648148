# SPDX-License-Identifier: Apache-2.0
"""JSON written by others, or cut off by a crash: bounded, with one kind of error for every problem."""

from __future__ import annotations

import json
import math
from typing import Any

from keepstep.base.lazy_pattern import lazy_pattern

MOST_PARTS = 4_000_000
"""Values in one document. Each takes 64 bytes or more in memory, however short its text."""
DEEPEST_WORDS = "it is nested too deeply"

_ESCAPES = lazy_pattern(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\."
)


def loads(text: str | bytes, *, most_parts: int = MOST_PARTS) -> Any:
    """The document. Raises ``ValueError``, and nothing else, if it cannot or may not be read.

    The result has no NaN and no infinity. Half a surrogate pair, which no file can hold, becomes U+FFFD.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    parts = text.count(",") + text.count("[") + text.count("{") + text.count(":")
    if parts > most_parts:
        raise ValueError(f"it has more than {most_parts:,} parts")
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPES.sub(lambda found: "\\ufffd" if len(found[0]) == 6 else found[0], text)
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError(DEEPEST_WORDS) from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number in it is too large")
    return value


def _refused(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)
"""Made once: ``json.loads`` would make one for every document."""
