# SPDX-License-Identifier: Apache-2.0
"""Ranks that were on their way out because of an exception of their own."""

from __future__ import annotations

from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import RankRaised

OF_FRAMEWORKS = ("RuntimeError", "OutOfStep")
"""Types by which frameworks and the guard itself tell that ranks do not fit together."""


def left_by_own_exception(seen: EvidenceSet) -> frozenset[int]:
    """What such a rank runs in a `finally` or at its exit is a consequence, and no fault of its program."""
    return frozenset(
        each.who
        for each in seen.all(RankRaised)
        if each.who is not None and each.fact.how in ("uncaught", "leaving") and not each.fact.in_framework and each.fact.type.rpartition(".")[2] not in OF_FRAMEWORKS
    )
