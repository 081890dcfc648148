# SPDX-License-Identifier: Apache-2.0
"""Which rank is kept from the processor, by the kernel's counters for its training thread. Pure.

A thread that is ready but not allowed to run (a control group's quota, a greedy neighbour) waits without knowing it.
The rank whose thread waits much of the time, while the others' threads do not, keeps them waiting. Only durations are
compared: clocks may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from keepstep.signals.blackbox import BoxPhase, Record, RecordKind

STEPPING = (BoxPhase.INPUT, BoxPhase.COMPUTE)
WINDOW_NS = 20_000_000_000
"""The last steps that are examined: this long, or this many."""
FEWEST_STEPS = 12
SPAN_NS = 2_000_000_000
"""Less is a hiccup."""
MUCH = 0.3
"""Of the time."""
MOSTLY, SOME = 0.6, 0.15
"""In most of the examined moments it is held back for part of the time: an occasional burst does not count."""
PAUSE, PAUSE_NS = 10.0, 500_000_000
"""A step this many times longer than usual contains a pause, whatever the phase, and is ignored. Not less than this: a
quota lets a rank take some steps at once and then holds it back for a tenth of a second."""
TIMES = 2.0
"""This many times as long as any other rank."""
STRETCH = 3.0
"""Its work is stretched this many times more than any other rank's, and than a host this crowded would stretch any
rank's: one that merely gets its share there is no straggler, though the others, which only wait for it, are not held
back."""
LOOKS = 40
LITTLE = 0.02
"""Share of the time: a short delay does not stretch a rank that hardly runs."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The share of time in which one rank was ready but could not run, the others' largest, and its earlier one."""

    rank: int
    share: float
    others: float
    before: float | None
    step_ns: int
    steps: int


@dataclass(frozen=True, slots=True)
class _TimeShares:
    held: float
    ran: float
    often: float

    @property
    def stretch(self) -> float:
        return (self.held + max(self.ran, LITTLE)) / max(self.ran, LITTLE)


def held_back(records: Mapping[int, Sequence[Record]]) -> HeldBack | None:
    """The rank that is kept from the processor while the others are not. The records are by rank, oldest first."""
    ends = {rank: {r.value: r.at for r in each if r.kind == RecordKind.STEP} for rank, each in records.items()}
    if len(ends) < 2:
        return None
    common = sorted(set.intersection(*(set(each) for each in ends.values())))
    if len(common) < FEWEST_STEPS:
        return None
    clock = next(iter(ends.values()))
    recent = [step for step in common if clock[common[-1]] - clock[step] <= WINDOW_NS]
    recent = recent if len(recent) >= FEWEST_STEPS else common[-FEWEST_STEPS:]
    first, last = recent[0], recent[-1]
    shares: dict[int, _TimeShares] = {}
    for rank, each in records.items():
        found = _shares(each, ends[rank][first], ends[rank][last])
        if found is None:
            return None
        shares[rank] = found
    worst = max(shares, key=lambda rank: shares[rank].held)
    own, others = shares[worst], [each for rank, each in shares.items() if rank != worst]
    if own.held < MUCH or own.often < MOSTLY or own.held < TIMES * max(each.held for each in others):
        return None
    fair = max(crowding(each) for each in records.values())
    if own.stretch < STRETCH * max(fair, *(each.stretch for each in others)):
        return None
    before = _shares(records[worst], records[worst][0].at, ends[worst][first])
    whole = clock[last] - clock[first]
    return HeldBack(
        rank=worst,
        share=min(own.held, 1.0),
        others=max(each.held for each in others),
        before=before.held if before is not None else None,
        step_ns=whole // max(1, last - first),
        steps=len(recent),
    )


def crowding(records: Sequence[Record]) -> float:
    """How many processes recently wanted each core of the rank's host; at least 1, also if that was not recorded."""
    seen = [record.spare / 100 for record in records if record.kind == RecordKind.HELD]
    return max(1.0, median(seen[-LOOKS:])) if seen else 1.0


def held_share(records: Sequence[Record]) -> float | None:
    """The share of its last steps' time in which a rank was held back; None: too little was seen of it."""
    found = _shares(records, records[0].at, records[-1].at) if records else None
    return found.held if found is not None else None


def _shares(records: Sequence[Record], since: int, until: int) -> _TimeShares | None:
    """How long in its steps a rank was held back and ran; None: too little was seen of it."""
    span = held = ran = often = number = 0
    for before, after in _between_looks(records, since, until):
        span += after.at - before.at
        held += after.value - before.value
        ran += after.extra - before.extra
        often += after.value - before.value >= SOME * (after.at - before.at)
        number += 1
    if number < 2 or span < SPAN_NS or ran <= 0:
        return None
    return _TimeShares(held=held / span, ran=ran / span, often=often / number)


def _between_looks(records: Sequence[Record], since: int, until: int) -> Iterator[tuple[Record, Record]]:
    """The kernel's counters between samples, where the rank did nothing but steps of usual length in between."""
    longest = max(
        PAUSE * median([r.extra for r in records if r.kind == RecordKind.STEP and since <= r.at <= until] or [0]),
        PAUSE_NS,
    )
    before: Record | None = None
    steps = True
    for record in records:
        if record.kind == RecordKind.PHASE:
            steps = record.value in STEPPING
        if not steps or (record.kind == RecordKind.STEP and record.extra > longest):
            before = None
        elif record.kind == RecordKind.HELD and since <= record.at <= until:
            if before is not None:
                yield before, record
            before = record
