# SPDX-License-Identifier: Apache-2.0
"""Questions about ranks that waited for others at the start."""

from __future__ import annotations

from keepstep.rules.api import Evidence, EvidenceSet, RanksArriving, RanksOnHost, StartedWith, WorldFormed


def still_waiting(seen: EvidenceSet) -> list[Evidence[RanksArriving]]:
    """The last report of each rank, unless a world was formed after it."""
    formed = {e.origin.source: e.at or 0.0 for e in seen.all(WorldFormed) if not e.fact.at_step and e.fact.size > 1}
    last: dict[str, Evidence[RanksArriving]] = {}
    for each in seen.all(RanksArriving):
        if formed.get(each.origin.source, -1.0) < (each.at or 0.0):
            last[each.origin.source] = each
    return list(last.values())


def missing_from(seen: EvidenceSet, waits: Evidence[RanksArriving]) -> tuple[int, ...]:
    """The ranks that a waiting one misses. It sees its own host only: those that wait on another one did arrive."""
    if not seen.all(RanksOnHost):
        return waits.fact.missing
    there = {rank for e in seen.all(RanksArriving) for rank in (*e.fact.arrived, e.fact.index)}
    return tuple(rank for rank in waits.fact.missing if rank not in there)


def ranks_started(seen: EvidenceSet) -> int | None:
    """How many ranks `keepstep run -n` started, on all hosts; None if another launcher started them."""
    started = {e.origin.source: e.fact.ranks for e in seen.all(StartedWith) if e.fact.ranks is not None}
    return sum(started.values()) if started else None
