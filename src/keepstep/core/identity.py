# SPDX-License-Identifier: Apache-2.0
"""Who said something: a rank of the run, and the stream of text that it wrote."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One member of the run. ``index`` is its global rank; the rest is known or ``None``."""

    index: int
    node: str | None = None
    local: int | None = None
    role: str | None = None
    attempt: int = 0
