# SPDX-License-Identifier: Apache-2.0
"""Which rank keeps the others waiting, by records of ranks whose clocks need not agree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from keepstep.signals.blackbox import BoxPhase, Record, RecordKind
from keepstep.signals.pace import LOOKS, BestPace, late_by_durations, late_ranks

MS = 1_000_000
Spent = tuple[int, int, int]
"""Of each step of one rank in milliseconds: waits for its batch, waits for a processor, runs."""


def rank(spent: Sequence[Spent], *, step_ms: int = 100, clock_ms: int = 0, crowd: float = 0.0) -> list[Record]:
    """The records of one rank, whose clock is ``clock_ms`` ahead, with the kernel's counters every second, on a host
    with ``crowd`` processes per core."""
    found: list[Record] = []
    held = ran = 0

    def write(at: int, kind: int, value: int, extra: int, spare: int = 0) -> None:
        found.append(Record(len(found) + 1, (at + clock_ms) * MS, kind, value, extra, spare))

    for number, (waits, kept, runs) in enumerate(spent, 1):
        at = number * step_ms
        write(at, RecordKind.PHASE, BoxPhase.INPUT, number - 1)
        write(at + waits, RecordKind.PHASE, BoxPhase.COMPUTE, number - 1)
        held, ran = held + kept, ran + runs
        write(at + step_ms - 1, RecordKind.STEP, number, step_ms * MS)
        if at % 1000 == 0:
            write(at + step_ms - 1, RecordKind.HELD, held * MS, ran * MS, int(crowd * 100))
    return found


BUSY: Spent = (1, 3, 10)


@pytest.mark.parametrize("clock_ms", [0, 40_000, -3_600_000])
def test_a_rank_that_is_kept_from_the_processor_is_named_whatever_its_clock(clock_ms: int) -> None:
    ranks = {
        0: rank([BUSY] * 300),
        1: rank([BUSY] * 100 + [(1, 70, 5)] * 200, clock_ms=clock_ms),
        2: rank([BUSY] * 300),
    }
    (late,) = late_by_durations(ranks)
    assert (late.rank, late.held, round(late.seconds, 3), round(late.others_s, 3)) == (1, True, 0.07, 0.003)
    assert late.before_s == pytest.approx(0.003), "what it lost itself before"
    assert "waits for a processor for 0.070 s of each 0.100 s step (others 0.003 s, before 0.003 s)" in late.words


def test_a_rank_that_takes_some_steps_at_once_and_is_then_held_back_is_named_too() -> None:
    """As under a quota: nine steps of 10 ms, then one of 110."""

    def bursts(kept: int) -> list[Record]:
        found: list[Record] = []
        for number in range(1, 601):
            at = number * 20 + (90 if number % 10 == 0 else 0)
            found.append(
                Record(len(found) + 1, at * MS, RecordKind.STEP, number, (110 if number % 10 == 0 else 10) * MS)
            )
            if number % 30 == 0:
                found.append(Record(len(found) + 1, at * MS, RecordKind.HELD, number // 10 * kept * MS, number * MS))
        return found

    (late,) = late_by_durations({0: bursts(2), 1: bursts(90)})
    assert (late.rank, late.held) == (1, True)


@pytest.mark.parametrize("clock_ms", [0, 40_000])
def test_a_rank_that_waits_for_its_batches_is_named_whatever_its_clock(clock_ms: int) -> None:
    ranks = {0: rank([BUSY] * 90), 1: rank([BUSY] * 40 + [(70, 3, 10)] * 50, clock_ms=clock_ms)}
    (late,) = late_by_durations(ranks)
    assert (late.rank, late.phase, round(late.seconds, 3), late.before_s) == (1, BoxPhase.INPUT, 0.07, 0.001)


@pytest.mark.parametrize(
    "spent",
    [
        pytest.param([[BUSY] * 300, [(1, 5, 30)] * 300], id="one has more to do"),
        pytest.param([[(1, 60, 15)] * 300, [(1, 75, 15)] * 300], id="a crowded host holds all of them back"),
        pytest.param([[(1, 20, 60)] * 300, [(1, 45, 50)] * 300], id="one is held back more, and still runs"),
        pytest.param([[BUSY] * 300, [BUSY] * 280 + [(1, 90, 5)] * 20], id="a burst of two seconds"),
        pytest.param([[BUSY] * 300, ([(1, 90, 5)] * 20 + [BUSY] * 30) * 6], id="bursts now and then"),
        pytest.param([[BUSY] * 300, [(1, 95, 0)] * 300], id="a kernel that does not count how long it runs"),
        pytest.param([[BUSY] * 8, [(1, 70, 5)] * 8], id="too few steps"),
    ],
)  # fmt: skip
def test_nobody_is_named_where_that_is_no_pace(spent: list[list[Spent]]) -> None:
    assert not late_ranks({number: rank(each) for number, each in enumerate(spent)})


def test_ends_of_steps_are_not_compared_where_clocks_differ() -> None:
    ranks = {0: rank([BUSY] * 60), 1: rank([BUSY] * 60, clock_ms=40)}
    assert late_ranks(ranks) and not late_by_durations(ranks)


@pytest.mark.parametrize(("worse", "held"), [((70, 3, 10), False), ((1, 70, 5), True)])
def test_a_rank_that_lastingly_does_worse_than_itself_is_told(worse: Spent, held: bool) -> None:
    past, good, bad = BestPace(3), rank([BUSY] * 60), rank([worse] * 60)
    assert not any(past.see(good) for _ in range(3))
    assert not any(past.see(bad) for _ in range(LOOKS - 1)), "a while is no change"
    assert not past.see(good)
    (late,) = [found for _ in range(LOOKS) if (found := past.see(bad))]
    assert (late.rank, late.held, round(late.seconds, 3), late.before_s) == (
        3,
        held,
        0.07,
        pytest.approx(0.001 if not held else 0.003),
    )


def test_steps_that_get_heavier_are_not_held_against_a_rank() -> None:
    past = BestPace(0)
    assert not any(past.see(rank([BUSY] * 60)) for _ in range(3))
    assert not any(past.see(rank([(4, 12, 300)] * 60, step_ms=400)) for _ in range(2 * LOOKS))


WAITS: Spent = (1, 1, 6)
"""One who only waits for the other: it sleeps, wakes up, and is let at once."""


@pytest.mark.parametrize(
    "unlucky",
    [
        pytest.param((1, 80, 15), id="at its compute"),
        pytest.param((70, 65, 8), id="at its batches, which it makes itself"),
    ],
)
def test_who_merely_lacks_the_processor_on_a_crowded_host_is_no_straggler(unlucky: Spent) -> None:
    """At load 20 on two cores, ranks with work to do are held back, and those that wait for them are not."""
    calm, crowded = (
        {0: rank([WAITS] * 300, crowd=crowd), 1: rank([unlucky] * 300, crowd=crowd)} for crowd in (0.9, 10.0)
    )
    assert [late.rank for late in late_ranks(calm)] == [1], "on a calm host somebody holds it back"
    assert late_ranks(crowded) == ()


def test_a_rank_that_ends_its_steps_late_on_a_crowded_host_may_only_lack_the_processor() -> None:
    def ranks(crowd: float, kept: int) -> dict[int, list[Record]]:
        return {0: rank([(1, 25, 10)] * 300, crowd=crowd), 1: rank([(1, kept, 10)] * 300, clock_ms=30, crowd=crowd)}

    assert [late.rank for late in late_ranks(ranks(10.0, 0))] == [1], "it sleeps, and nobody held it back"
    assert late_ranks(ranks(10.0, 28)) == ()
    assert [late.rank for late in late_ranks(ranks(1.0, 28))] == [1]


def test_a_rank_that_gets_far_less_than_its_share_of_a_crowded_host_is_named() -> None:
    """A quota: a twentieth of a core, where three want each."""
    (late,) = late_ranks({0: rank([WAITS] * 300, crowd=3.0), 1: rank([(1, 92, 5)] * 300, crowd=3.0)})
    assert (late.rank, late.held) == (1, True)


def test_a_host_that_gets_crowded_is_not_held_against_a_rank() -> None:
    past = BestPace(0)
    assert not any(past.see(rank([BUSY] * 60, crowd=1.0)) for _ in range(3))
    assert not any(past.see(rank([(1, 70, 10)] * 60, crowd=10.0)) for _ in range(2 * LOOKS))


def at_its_own_pace(first_ms: int, step_ms: float, *, steps: int = 200, waits: float = 0.0) -> list[Record]:
    """A rank whose steps end when they end, whatever the others do."""
    found: list[Record] = []
    for number in range(1, steps + 1):
        began = int((first_ms + (number - 1) * step_ms) * MS)
        for at, kind, value, extra in (
            (began, RecordKind.PHASE, BoxPhase.INPUT, number - 1),
            (began + int(waits * MS), RecordKind.PHASE, BoxPhase.COMPUTE, number - 1),
            (began + int(step_ms * MS), RecordKind.STEP, number, int(step_ms * MS)),
        ):
            found.append(Record(len(found) + 1, at, kind, value, extra))
    return found


@pytest.mark.parametrize(
    ("first_ms", "step_ms", "waits"),
    [
        pytest.param(0, 30, 0, id="it is slower, and falls behind ever more"),
        pytest.param(0, 40, 30, id="its batches come slowly, and only it needs them"),
        pytest.param(500, 10, 0, id="it began later, and never catches up"),
        pytest.param(45, 10, 0, id="the others hand their steps to a device, and run four steps ahead"),
    ],
)
def test_a_rank_that_nobody_waits_for_is_no_straggler(first_ms: int, step_ms: float, waits: float) -> None:
    ranks = {0: at_its_own_pace(0, 10), 1: at_its_own_pace(first_ms, step_ms, waits=waits)}
    assert late_ranks(ranks) == () and late_by_durations(ranks) == ()


def test_one_who_is_kept_from_the_processor_alone_is_no_straggler_either() -> None:
    assert late_by_durations({0: rank([BUSY] * 300, step_ms=30), 1: rank([(1, 70, 5)] * 300)}) == ()


@pytest.mark.parametrize(("steps", "named"), [(60, ()), (200, (1,))], ids=["for a second", "for four"])
def test_a_pace_needs_some_time_to_be_one(steps: int, named: tuple[int, ...]) -> None:
    """Steps of 20 ms, which rank 1 ends 12 ms after the other: on a busy host any rank does so for a moment."""

    def ends(late_ms: int) -> list[Record]:
        return [Record(n, (20 * n + late_ms) * MS, RecordKind.STEP, n, 20 * MS) for n in range(1, steps + 1)]

    assert tuple(late.rank for late in late_ranks({0: ends(0), 1: ends(12)})) == named
