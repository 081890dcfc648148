# SPDX-License-Identifier: Apache-2.0
"""Ranks that were on their way out because of an exception of their own."""

from __future__ import annotations

from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import RankRaised

OF_FRAMEWORKS = ("RuntimeError", "OutOfStep")
"""Types by which frameworks and the guard itself tell that ranks do not fit together."""


OF_PROGRAMS = (
    "IndexError",
    "KeyError",
    "ValueError",
    "TypeError",
    "AttributeError",
    "AssertionError",
    "ZeroDivisionError",
    "FileNotFoundError",
)
"""Types that speak of the program or its data, also where a framework raises them (a label out of range): never of other ranks."""


def left_by_own_exception(seen: EvidenceSet) -> frozenset[int]:
    """What such a rank runs in a `finally` or at its exit is a consequence, and no fault of its program."""
    return frozenset(
        each.who
        for each in seen.all(RankRaised)
        if each.who is not None and each.fact.how in ("uncaught", "leaving") and _is_own(each.fact)
    )


def _is_own(fact: RankRaised) -> bool:
    kind = fact.type.rpartition(".")[2]
    return kind in OF_PROGRAMS or (not fact.in_framework and kind not in OF_FRAMEWORKS)
