# SPDX-License-Identifier: Apache-2.0
"""Where each finding's evidence lies on a time line, one lane per rank. Pure layout, no drawing.

Clocks are used where at least two moments are known. Otherwise events stand in the order of the
one file they were read from, or else in the causal order of their findings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

from keepstep.model.codec import representative
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Role
from keepstep.model.report import Report

MOST_LANES = 128
MOST_FINDINGS = 40
QUIET_RUN = 4
"""This many neighbouring ranks without events share one lane."""

_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


class Axis(Enum):
    TIME = "by the clocks of the ranks, UTC where the log does not say otherwise"
    LINES = "in the order of the log; times are unknown"
    CAUSE = "in causal order; times are unknown"


@dataclass(frozen=True, slots=True)
class Event:
    """One piece of evidence. ``x`` runs from 0 to 1; ``finding`` is the place in the report."""

    finding: int
    role: Role
    x: float
    evidence: Evidence[Fact]
    guessed: bool = False
    """Placed by its neighbours, because it has no time of its own."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A rank, a run of quiet ranks, or (no ranks) evidence that no rank could be named for."""

    ranks: tuple[int, ...]
    events: tuple[Event, ...] = ()
    blamed: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    axis: Axis
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    day: str | None
    left_out: int
    """Ranks that did not fit."""


def lay_out(report: Report) -> Timeline | None:
    """The timeline of a report; None where there is nothing to place."""
    findings = report.findings[:MOST_FINDINGS]
    found = [(n, e) for n, finding in enumerate(findings) for e in representative(finding.evidence, 4096)]
    if not found:
        return None
    axis, places, ticks, day = _axis(report, found)
    events: dict[int | None, list[Event]] = {}
    for (n, evidence), (x, guessed) in zip(found, places, strict=True):
        events.setdefault(evidence.who, []).append(Event(n, findings[n].role, x, evidence, guessed))
    lanes, left_out = _lanes(report, events)
    return Timeline(axis, lanes, ticks, day, left_out)


def _lanes(report: Report, events: dict[int | None, list[Event]]) -> tuple[tuple[Lane, ...], int]:
    blamed = set(report.findings[0].ranks) if report.findings else set()
    known = {rank for rank in events if rank is not None} | set(report.ranks) | blamed
    if known and report.world_size and report.world_size <= MOST_LANES:
        known |= set(range(report.world_size))
    chosen = sorted(known)
    if len(known) > MOST_LANES:
        by_worth = sorted(known, key=lambda rank: (rank not in blamed, rank not in events, rank))
        chosen = sorted(by_worth[:MOST_LANES])
    lanes = [Lane((rank,), tuple(events.get(rank, ())), rank in blamed) for rank in chosen]
    if events.get(None):
        lanes.append(Lane((), tuple(events[None])))
    return tuple(_quiet_together(lanes)), len(known) - len(chosen)


def _quiet_together(lanes: list[Lane]) -> Iterable[Lane]:
    run: list[Lane] = []
    for lane in [*lanes, None]:
        if lane is not None and not lane.events and not lane.blamed:
            run.append(lane)
            continue
        if len(run) >= QUIET_RUN:
            yield Lane(tuple(rank for quiet in run for rank in quiet.ranks))
        else:
            yield from run
        run = []
        if lane is not None:
            yield lane


_Found = list[tuple[int, Evidence[Fact]]]
_Places = list[tuple[float, bool]]


def _axis(report: Report, found: _Found) -> tuple[Axis, _Places, tuple[Tick, ...], str | None]:
    times = {e.known_at for _, e in found if e.known_at is not None}
    if len(times) > 1:
        low, high = min(times), max(times)
        moments = _moments(found)
        places = [((at - low) / (high - low), guessed) for at, guessed in moments]
        return Axis.TIME, places, _clock_ticks(low, high), _day(low)
    if len({e.origin.source for _, e in found}) == 1 and all(e.origin.line is not None for _, e in found):
        lines = sorted({e.origin.line or 0 for _, e in found})
        spot = {line: (n + 0.5) / len(lines) for n, line in enumerate(lines)}
        every = max(1, len(lines) // 6)
        ticks = tuple(Tick(spot[line], f"line {line:,}") for line in lines[::every])
        return Axis.LINES, [(spot[e.origin.line or 0], False) for _, e in found], ticks, None
    shown = sorted({n for n, _ in found})
    column = {n: (k + 0.5) / len(shown) for k, n in enumerate(shown)}
    names = tuple(Tick(column[n], report.findings[n].rule) for n in shown)
    return Axis.CAUSE, [(column[n], False) for n, _ in found], names, None


def _moments(found: _Found) -> list[tuple[float, bool]]:
    """A time for each: its own, else that of the last line above it in its file, else of its finding."""
    earliest = min(e.known_at for _, e in found if e.known_at is not None)
    by_source: dict[str, list[tuple[int, float]]] = {}
    by_finding: dict[int, float] = {}
    for n, e in found:
        if e.known_at is not None:
            by_finding[n] = min(e.known_at, by_finding.get(n, e.known_at))
            if e.origin.line is not None:
                by_source.setdefault(e.origin.source, []).append((e.origin.line, e.known_at))
    moments: list[tuple[float, bool]] = []
    last = earliest
    for n, e in found:
        if e.known_at is not None:
            last = e.known_at
            moments.append((e.known_at, False))
            continue
        near = by_source.get(e.origin.source)
        if near and e.origin.line is not None:
            above = [place for place in near if place[0] <= e.origin.line]
            moments.append((max(above)[1] if above else earliest, True))
        else:
            moments.append((by_finding.get(n, last), True))
    return moments


def _clock_ticks(low: float, high: float) -> tuple[Tick, ...]:
    span = high - low
    step = next((s for s in _STEPS_S if span / s <= 5), span / 4)
    first = -(-low // step) * step
    ticks = []
    for n in range(7):
        at = first + n * step
        if at > high:
            break
        ticks.append(Tick((at - low) / span, _clock(at, step)))
    return tuple(ticks)


def _clock(at: float, step: float) -> str:
    when = _utc(at)
    if when is None:
        return ""
    if step < 1:
        return when.strftime("%H:%M:%S.") + f"{when.microsecond // 100_000}"
    if step >= 10 * 86400:
        return when.strftime("%Y-%m-%d")
    return when.strftime("%m-%d %H:%M" if step >= 43200 else "%H:%M:%S" if step < 60 else "%H:%M")


def _day(at: float) -> str | None:
    when = _utc(at)
    return when.strftime("%Y-%m-%d") if when else None


def _utc(at: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None
