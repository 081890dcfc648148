# SPDX-License-Identifier: Apache-2.0
"""What several rules about input data ask of the evidence."""

from __future__ import annotations

from typing import TypeVar

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.wording import ranks
from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.model.facts.network import PeerLost
from keepstep.model.facts.sync import CollectiveTimeout, GroupShutDown, RanksMissing

F = TypeVar("F", bound=Fact)

FALLOUT = (
    Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    Cause.NETWORK_TIMEOUT_SLOW,
    Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    Cause.USER_CODE_EXCEPTION,
)
"""What the other ranks show when one rank fails or exits."""


def lasting(seen: EvidenceSet, kind: type[F]) -> tuple[Evidence[F], ...]:
    """Evidence after which the same stream shows no more training."""
    return tuple(e for e in seen.all(kind) if not seen.survived(e))


_OF_THE_MODEL = lazy_pattern(
    r"(?i)heads?\b|hidden|vocab|layers?\b|experts?\b|world_size|partition|parallel_size|embedding"
)


def over_parallel_ranks(seen: EvidenceSet, place: Evidence[BatchNotDivisible]) -> bool:
    """Whether a part of the model, not a batch, could not be divided: the exception's source lines name it."""
    return any(
        "divisible" in each.fact.message
        and any(_OF_THE_MODEL.search(code) and "batch" not in code for code in each.fact.code)
        for each in seen.raised_around(place)
    )


def others_stopped(seen: EvidenceSet) -> tuple[Evidence[Fact], ...]:
    """Evidence that ranks waited for another rank, or lost it."""
    kinds = (GroupShutDown, RanksMissing, CollectiveTimeout, PeerLost)
    return tuple(e for kind in kinds for e in seen.all(kind) if not seen.survived(e))


def who(evidence: tuple[Evidence[F], ...]) -> str:
    """``rank 3``, ``ranks 4-7`` or ``a rank``, to begin or continue a title."""
    known = sorted({n for e in evidence if (n := e.who) is not None})
    return ranks(known) if known else "a rank"
