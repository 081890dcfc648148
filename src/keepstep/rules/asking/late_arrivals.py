# SPDX-License-Identifier: Apache-2.0
"""Which ranks began to meet the others only when those had given up."""

from __future__ import annotations

from keepstep.model.facts import ConnectFailed, Fact, PeerAwaited, RendezvousTimeout, ServerStarted, WorldSeen
from keepstep.rules.api import Evidence, EvidenceSet

OFTEN = 3
"""A healthy start waits a little too."""
MORE_LINES = 5
ZONES_S = 1200.0
"""Clocks that differ by more may be in different time zones."""


def gave_up(seen: EvidenceSet) -> list[Evidence[Fact]]:
    """The waits for other ranks that came to nothing."""
    return seen.once(_gave_up)


def _gave_up(seen: EvidenceSet) -> list[Evidence[Fact]]:
    awaited = [e for e in seen.all(PeerAwaited) if not e.fact.connected and not seen.survived(e)]
    found: list[Evidence[Fact]] = [*seen.all(RendezvousTimeout)]
    found += [e for e in seen.all(ConnectFailed) if e.fact.final]
    found += awaited if len(awaited) >= OFTEN else []
    return [e for e in found if not seen.survived(e)]


def came_too_late(seen: EvidenceSet) -> dict[int, tuple[Evidence[Fact], float]]:
    """By rank: what shows when it began to meet the others, and how long after they had given up."""
    return seen.once(_came_too_late)


def _came_too_late(seen: EvidenceSet) -> dict[int, tuple[Evidence[Fact], float]]:
    ends: dict[int, float] = {}
    for e in gave_up(seen):
        if e.at is None or e.who is None:
            return {}
        ends[e.who] = max(e.at + e.within_s, ends.get(e.who, e.at))
    began = _began(seen)
    found: dict[int, tuple[Evidence[Fact], float]] = {}
    for rank, start in began.items():
        after = _after(seen, rank, start, ends)
        if after is not None:
            found[rank] = (start, after)
    waited = set(ends) - set(found)
    return found if waited and not (set(began) - set(found) - set(ends)) else {}


def _after(seen: EvidenceSet, rank: int, start: Evidence[Fact], ends: dict[int, float]) -> float | None:
    """How long after the end of all other waits a rank began, None if it did not.

    Of a rank that gave up later itself, its own clock must show it: it took longer to come than the others had waited.
    """
    others = {other: at for other, at in ends.items() if other != rank}
    if not others or start.at is None:
        return None
    if rank not in ends:
        after = start.at - start.within_s - max(others.values())
        return after if 0 < after < ZONES_S and _wrote_before(seen, start, set(others)) else None
    firsts = {other: _first(seen, other) for other in (rank, *others)}
    known = {other: at for other, at in firsts.items() if at is not None}
    if len(known) < len(firsts):
        return None
    after = (start.at - known[rank]) - max(at - known[other] for other, at in others.items())
    return after if after > 0 else None


def _wrote_before(seen: EvidenceSet, start: Evidence[Fact], others: set[int]) -> bool:
    """Whether a rank that only says when it serves had written more before than the others: clocks alone may differ."""
    if not isinstance(start.fact, ServerStarted):
        return True
    lines = [e.origin.line or 0 for e in seen.all(ServerStarted) if e.who in others]
    return bool(lines) and (start.origin.line or 0) - max(lines) >= MORE_LINES


def _first(seen: EvidenceSet, rank: int) -> float | None:
    return min((e.at for e in seen.items if e.who == rank and e.at is not None), default=None)


def _began(seen: EvidenceSet) -> dict[int, Evidence[Fact]]:
    """When each rank began to meet the others: where it connects or serves, else where it says who it is."""
    said: dict[int, Evidence[Fact]] = {}
    met: dict[int, Evidence[Fact]] = {}
    for world in seen.all(WorldSeen):
        if world.who is not None and world.at is not None:
            (met if ":" in (world.fact.role or "") else said).setdefault(world.who, world)
    for server in seen.all(ServerStarted):
        if server.who is not None and server.at is not None:
            met.setdefault(server.who, server)
    return {**said, **met}
