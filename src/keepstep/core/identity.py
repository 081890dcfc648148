# SPDX-License-Identifier: Apache-2.0
"""Who said something: a rank of the run, and the stream of text that it wrote."""

from __future__ import annotations

from dataclasses import dataclass

MOST_RANKS = 1_000_000
"""No run has more. Logs and files may name any number, and what is made for each rank has to fit into memory."""


def everyone(world: int) -> range:
    """The ranks of a world of this size, as far as there can be so many."""
    return range(min(world, MOST_RANKS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One member of the run. ``index`` is its global rank; the rest is known or ``None``."""

    index: int
    node: str | None = None
    local: int | None = None
    role: str | None = None
    attempt: int = 0
