# SPDX-License-Identifier: Apache-2.0
"""Who wrote something: a rank of the run, and its stream of text."""

from __future__ import annotations

from dataclasses import dataclass

MOST_RANKS = 1_000_000
"""No run has more. Logs may name any number, and per-rank data must fit into memory."""


def everyone(world: int) -> range:
    """The ranks of a world of this size, up to the limit."""
    return range(min(world, MOST_RANKS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One member of the run. ``index`` is its global rank; the rest is known or ``None``."""

    index: int
    node: str | None = None
    local: int | None = None
    role: str | None = None
    attempt: int = 0
