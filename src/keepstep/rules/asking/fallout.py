# SPDX-License-Identifier: Apache-2.0
"""What the other ranks show when one rank fails, and which of its messages the training did not survive."""

from __future__ import annotations

from typing import TypeVar

from keepstep.model.facts import CollectiveTimeout, Fact, GroupShutDown, PeerLost, RanksMissing
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Evidence, EvidenceSet, ranks

F = TypeVar("F", bound=Fact)

FALLOUT = (*SEEN_BY_OTHER_RANKS, Cause.USER_CODE_EXCEPTION)
"""What the other ranks show when one rank fails or exits."""


def lasting(seen: EvidenceSet, kind: type[F]) -> tuple[Evidence[F], ...]:
    """Evidence after which the same stream shows no more training."""
    return tuple(e for e in seen.all(kind) if not seen.survived(e))


def others_stopped(seen: EvidenceSet) -> tuple[Evidence[Fact], ...]:
    """Evidence that ranks waited for another rank, or lost it."""
    kinds = (GroupShutDown, RanksMissing, CollectiveTimeout, PeerLost)
    return tuple(e for kind in kinds for e in seen.all(kind) if not seen.survived(e))


def who(evidence: tuple[Evidence[F], ...]) -> str:
    """``rank 3``, ``ranks 4-7`` or ``a rank``, to begin or continue a title."""
    known = sorted({n for e in evidence if (n := e.who) is not None})
    return ranks(known) if known else "a rank"
