# SPDX-License-Identifier: Apache-2.0
"""Which rank is kept from the processor, by what the kernel counts of its training's thread. Pure.

A thread that is ready to run and is not let (a control group's quota, a greedy neighbour) waits without knowing it. The rank whose thread
waits so for much of the time, while the others' do not, keeps them waiting. Only durations are compared: clocks may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from keepstep.core.blackbox import Kind, Phase, Record

STEPPING = (Phase.INPUT, Phase.COMPUTE)
WINDOW_NS = 20_000_000_000
"""The last steps that are looked at: so long, or so many."""
FEWEST_STEPS = 12
SPAN_NS = 2_000_000_000
"""Less is a hiccup."""
MUCH = 0.3
"""Of the time."""
MOSTLY, SOME = 0.6, 0.15
"""In most of the moments looked at it is held back for a part of them: a burst now and then is no pace."""
PAUSE, PAUSE_NS = 10.0, 500_000_000
"""A step of so many times the usual one has a pause in it, whatever the phase: what happens there is not looked at. Not less than this: a quota
lets a rank take some steps at once and then holds it back for a tenth of a second."""
TIMES = 2.0
"""So many times as long as any other rank."""
STRETCH = 3.0
"""Its work is stretched so many times as much as any other rank's, and as on a host this crowded everybody's is: one that merely gets its
share there is no straggler, though the others, who only wait for it, are not held back."""
LOOKS = 40
LITTLE = 0.02
"""Of the time: one who hardly runs is not stretched by a short delay."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """One rank's share of the time in which it was ready and was not let, the others' largest, and its own before."""

    rank: int
    share: float
    others: float
    before: float | None
    step_ns: int
    steps: int


@dataclass(frozen=True, slots=True)
class _Shares:
    held: float
    ran: float
    often: float

    @property
    def stretch(self) -> float:
        return (self.held + max(self.ran, LITTLE)) / max(self.ran, LITTLE)


def held_back(records: Mapping[int, Sequence[Record]]) -> HeldBack | None:
    """The rank that is kept from the processor while the others are not; by rank, the records, oldest first."""
    ends = {rank: {r.value: r.at for r in each if r.kind == Kind.STEP} for rank, each in records.items()}
    if len(ends) < 2:
        return None
    common = sorted(set.intersection(*(set(each) for each in ends.values())))
    if len(common) < FEWEST_STEPS:
        return None
    clock = next(iter(ends.values()))
    recent = [step for step in common if clock[common[-1]] - clock[step] <= WINDOW_NS]
    recent = recent if len(recent) >= FEWEST_STEPS else common[-FEWEST_STEPS:]
    first, last = recent[0], recent[-1]
    shares: dict[int, _Shares] = {}
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
    """How many processes wanted each core of the rank's host lately; at least 1, also where that was not written down."""
    seen = [record.spare / 100 for record in records if record.kind == Kind.HELD]
    return max(1.0, median(seen[-LOOKS:])) if seen else 1.0


def held_share(records: Sequence[Record]) -> float | None:
    """How much of the time of its last steps a rank was held back; None: too little was seen of it."""
    found = _shares(records, records[0].at, records[-1].at) if records else None
    return found.held if found is not None else None


def _shares(records: Sequence[Record], since: int, until: int) -> _Shares | None:
    """How much of the time of its steps a rank was held back and ran; None: too little was seen of it."""
    span = held = ran = often = number = 0
    for before, after in _between_looks(records, since, until):
        span += after.at - before.at
        held += after.value - before.value
        ran += after.extra - before.extra
        often += after.value - before.value >= SOME * (after.at - before.at)
        number += 1
    if number < 2 or span < SPAN_NS or ran <= 0:
        return None
    return _Shares(held=held / span, ran=ran / span, often=often / number)


def _between_looks(records: Sequence[Record], since: int, until: int) -> Iterator[tuple[Record, Record]]:
    """The kernel's counters from one look to the next, where the rank did nothing but steps of usual length in between."""
    longest = max(
        PAUSE * median([r.extra for r in records if r.kind == Kind.STEP and since <= r.at <= until] or [0]), PAUSE_NS
    )
    before: Record | None = None
    steps = True
    for record in records:
        if record.kind == Kind.PHASE:
            steps = record.value in STEPPING
        if not steps or (record.kind == Kind.STEP and record.extra > longest):
            before = None
        elif record.kind == Kind.HELD and since <= record.at <= until:
            if before is not None:
                yield before, record
            before = record
