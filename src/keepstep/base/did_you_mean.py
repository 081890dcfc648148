# SPDX-License-Identifier: Apache-2.0
"""The names that a mistyped one may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterable

LIKE = 0.6
"""How much of two names must agree, from 0 to 1."""
MOST = 3


def did_you_mean(word: str, options: Iterable[str], otherwise: str | None = None) -> str | None:
    """The hint of an error: the option most like the word, or several that are equally like it; else ``otherwise``."""
    from difflib import SequenceMatcher  # only for mistakes: it takes a while to load

    scores = {each: SequenceMatcher(None, word.casefold(), each.casefold()).ratio() for each in options}
    best = max(scores.values(), default=0.0)
    if best < LIKE:
        return otherwise
    return f"did you mean {' or '.join(sorted(each for each in scores if scores[each] == best)[:MOST])}?"
