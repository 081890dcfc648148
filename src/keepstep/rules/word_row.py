# SPDX-License-Identifier: Apache-2.0
"""A row of the table of words: one cause, what to call it, and what speaks of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keepstep.core.cause import Cause
from keepstep.core.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class Row:
    """The words of one cause. ``name``: what they speak of, for "its last errors speak of ..."."""

    cause: Cause
    name: str
    words: tuple[tuple[float, re.Pattern[str]], ...]


def row(cause: Cause, name: str, **words: str) -> Row:
    """``w4`` to ``w1``: words by weight, one pattern a line, each counted once; without regard to case."""
    return Row(
        cause,
        name,
        tuple(
            (float(weight[1]), lazy_pattern(line.strip(), re.IGNORECASE))
            for weight, lines in words.items()
            for line in lines.strip().splitlines()
        ),
    )
