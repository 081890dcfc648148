# SPDX-License-Identifier: Apache-2.0
"""The first collective that ranks issued differently, by what their guards reported or recorded."""

from __future__ import annotations

import math
from dataclasses import replace

from keepstep.rules.api import CollectivesIssued, ContractBroken, Evidence, EvidenceSet, Fact, RankStopped
from keepstep.signals import collective_history
from keepstep.signals.collective_history import SCRIPTS, Mismatch, TrailEntry
from keepstep.signals.contracts import Difference, Subject

Told = tuple[Mismatch, tuple[Evidence[Fact], ...]]


def first_mismatch(seen: EvidenceSet) -> Told | None:
    """As the guards reported it while the ranks ran, else by what each rank left behind.

    Where the run hung, only what had been issued by then counts: a rank may issue more on its way out, in a handler
    of a signal or of the exception.
    """
    still = _hung_at(seen)
    if still is None:
        return _told(seen) or _by_trails(seen) or _by_boxes(seen)
    return _told(seen, still) or _by_trails(seen, still)


def _hung_at(seen: EvidenceSet) -> float | None:
    """When the run was found to hang, if it did so to the end.

    None also where we do not know what each rank had issued by then.
    """
    issued = [e for e in seen.all(CollectivesIssued) if e.at is not None]
    most = max((e.fact.steps for e in issued), default=0)
    at = min((e.at for e in seen.all(RankStopped) if e.at is not None and e.fact.steps >= most), default=None)
    known = {e.who for e in issued if at is not None and e.at is not None and e.at <= at}
    return at if known and known >= {e.who for e in issued} else None


def _told(seen: EvidenceSet, until: float = math.inf) -> Told | None:
    told = [
        e
        for e in seen.all(ContractBroken)
        if e.fact.subject.split(" ", 1)[0] == Subject.COLLECTIVE and (e.at or 0.0) <= until
    ]
    if not told:
        return None
    fact = min(told, key=lambda e: (not e.fact.places, e.at or 0.0)).fact
    alike = tuple(e for e in told if e.fact.subject == fact.subject)
    odd = fact.odd or Difference(fact.what, fact.values).odd
    return Mismatch(fact.ordinal, fact.what, fact.values, "", odd, fact.places), alike


def _by_trails(seen: EvidenceSet, until: float = math.inf) -> Told | None:
    for group in dict.fromkeys(e.fact.group for e in seen.all(CollectivesIssued)):
        last = _last(seen, group, until)
        found = (
            collective_history.mismatch({rank: _trail(e) for rank, e in last.items()}, group)
            if group != SCRIPTS
            else None
        )
        if found is not None:
            return found, tuple(last[rank] for _, ranks in found.values for rank in ranks)[:8]
    return None


def _by_boxes(seen: EvidenceSet) -> Told | None:
    """A rank that died silently inside its last collective, whose number is a different one in a peer's record."""
    whole = {
        rank: e
        for group in dict.fromkeys(e.fact.group for e in seen.all(CollectivesIssued))
        if group == "0"
        for rank, e in _last(seen, group).items()
    }
    for rank, box in _last(seen, SCRIPTS).items():
        last = _trail(box)[-1:]
        if not last or (rank in whole and _trail(whole[rank])[-1].sequence >= last[0].sequence):
            continue  # its own record reaches as far
        peers = {
            peer: _trail(e) for peer, e in whole.items() if peer != rank and abs(e.fact.steps - box.fact.steps) <= 1
        }
        found = collective_history.mismatch({rank: last, **peers}, alike=0)
        if found is not None and found.sequence == last[0].sequence and any(rank in ranks for _, ranks in found.values):
            history = [each for each in next(iter(peers.values())) if each.sequence < found.sequence]
            issued = {
                peer: each
                for peer, trail in {rank: last, **peers}.items()
                for each in trail
                if each.sequence == found.sequence
            }
            return replace(found, odd=collective_history.odd(issued, history)), (box, *(whole[peer] for peer in peers))
    return None


def _last(seen: EvidenceSet, group: str, until: float = math.inf) -> dict[int, Evidence[CollectivesIssued]]:
    found: dict[int, Evidence[CollectivesIssued]] = {}
    for e in seen.all(CollectivesIssued):
        if (
            (e.at or 0.0) <= until
            and e.fact.group == group
            and e.who is not None
            and e.fact.issued
            and (e.who not in found or (e.at or 0.0) >= (found[e.who].at or 0.0))
        ):
            found[e.who] = e
    return found


def _trail(e: Evidence[CollectivesIssued]) -> tuple[TrailEntry, ...]:
    return tuple(TrailEntry(*each) for each in e.fact.issued)
