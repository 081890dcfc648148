# SPDX-License-Identifier: Apache-2.0
"""What several rules ask about the stages of an input pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.rules.api import PipelineSeen

NO_SEED = "no seed"


def pairs(seen: PipelineSeen, first: str, second: str) -> Iterator[tuple[str, str]]:
    """How each stage of one sort works that comes before one of another sort, and how that one works."""
    for place, (word, how) in enumerate(seen.stages):
        if word == first:
            yield from ((how, later) for after, later in seen.stages[place + 1 :] if after == second)


def has(seen: PipelineSeen, word: str) -> bool:
    return any(each == word for each, _ in seen.stages)
