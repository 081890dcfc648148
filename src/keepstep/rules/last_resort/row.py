# SPDX-License-Identifier: Apache-2.0
"""A row of the table of words: one cause, what to call it, and the words that suggest it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.cause import Cause


@dataclass(frozen=True, slots=True)
class WordRow:
    """The words of one cause. ``name``: what they suggest, to follow "its last errors suggest ..."."""

    cause: Cause
    name: str
    words: tuple[tuple[float, re.Pattern[str]], ...]


LONGEST_TEXT = 1000
"""How much of an error's text is read."""
_CONTINUED = re.compile(r"\n[ \t]{0,20}\|")
_WORDS = {r"\d+": r"\d{1,40}", r"\w*": r"\w{0,40}", r"\w+": r"\w{1,40}", r"\S*": r"\S{0,200}", r"\S+": r"\S{1,200}"}


def _bounded(pattern: str) -> str:
    """No unbounded repetition: a text made of nothing else would be searched again from each of its letters."""
    for endless, short in _WORDS.items():
        pattern = pattern.replace(endless, short)
    return pattern


def row(cause: Cause, name: str, **words: str) -> WordRow:
    """``w4`` to ``w1``: words by weight, one pattern per line, each counted once, ignoring case.

    A line that begins with ``|`` continues the pattern of the line above.
    """
    return WordRow(
        cause,
        name,
        tuple(
            (float(weight[1]), lazy_pattern(_bounded(line.strip()), re.IGNORECASE, most=LONGEST_TEXT))
            for weight, lines in words.items()
            for line in _CONTINUED.sub("|", lines.strip()).splitlines()
        ),
    )
