# SPDX-License-Identifier: Apache-2.0
"""Ranks that were exiting because of an exception of their own."""

from __future__ import annotations

from keepstep.rules.api import EvidenceSet, RankRaised

OF_FRAMEWORKS = ("RuntimeError", "OutOfStep")
"""Types that frameworks and the guard itself raise when ranks disagree."""


OF_PROGRAMS = tuple(
    "IndexError KeyError ValueError TypeError AttributeError AssertionError ZeroDivisionError FileNotFoundError".split()
)
"""Types about the program or its data, never about other ranks, even if a framework raises them."""


def left_by_own_exception(seen: EvidenceSet) -> frozenset[int]:
    """Those ranks. What they run in a `finally` or at exit is a consequence, not a fault of the program."""
    return frozenset(
        each.who
        for each in seen.all(RankRaised)
        if each.who is not None and each.fact.how in ("uncaught", "leaving") and _is_own(each.fact)
    )


def _is_own(fact: RankRaised) -> bool:
    kind = fact.type.rpartition(".")[2]
    return kind in OF_PROGRAMS or (not fact.in_framework and kind not in OF_FRAMEWORKS)
