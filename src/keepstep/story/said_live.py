# SPDX-License-Identifier: Apache-2.0
"""What the user was told while the run was on, for the report: what its findings do not say anyway."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.base.wording import ranks as say_ranks
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.guard import SaidLive
from keepstep.model.finding import Finding

MOST = 12
WHOLE = 20
"""Shorter texts are part of others by chance."""


def said_live(seen: EvidenceSet, findings: Sequence[Finding]) -> tuple[str, ...]:
    """In the order in which it was said; the same words of several ranks once."""
    known = [text for f in findings for text in (f.title, f.because, *(e.quote for e in f.evidence)) if text]
    told: dict[str, list[int]] = {}
    for each in sorted(seen.all(SaidLive), key=lambda e: e.at or 0.0):
        words = each.fact.words
        if not any((len(text) >= WHOLE and text in words) or words in text for text in known):
            told.setdefault(words, []).extend([each.who] if each.who is not None else [])
    lines = [f"{say_ranks(sorted(set(who)))}: {words}" if who else words for words, who in told.items()]
    more = len(lines) - MOST
    return (*lines[:MOST], f"and {more} more") if more > 0 else tuple(lines)
