"""Clocks that differ, found by what several logs report of one moment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keepstep.model.cause import Cause
from keepstep.model.evidence import CoverageState, Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ProcessesStarted, WorldSeen
from keepstep.model.facts.process import ExceptionRaised, ProcessExited
from keepstep.model.facts.sync import CollectiveTimeout, GroupShutDown
from keepstep.model.facts.training import StepSeen
from keepstep.model.finding import Confidence, Finding, Severity, Standing
from keepstep.model.identity import Rank
from keepstep.story.causality import in_causal_order
from keepstep.story.clocks import SAME_S, aligned, clock_coverage, estimated, zone_of
from keepstep.story.first_rank import first_rank

BEGAN = 1_790_000_000.0
_RAISED = ExceptionRaised(type="KeyError", message="'label'")


def said(
    fact: Fact, rank: int | None, line: int, at: float | None, source: str = "", node: str | None = None
) -> Evidence[Fact]:
    return Evidence(
        fact=fact,
        origin=Origin(source=source or f"rank{rank}.log", line=line),
        rank=None if rank is None else Rank(index=rank, node=node),
        at=at,
    )


def log(rank: int, ahead: float, steps: int, noise: Sequence[float] = (), world: bool = True) -> list[Evidence[Fact]]:
    """A rank that is in step with the others, by a clock that is ``ahead``."""
    late = [*noise, *[0.0] * (steps + 1)]
    items = [said(WorldSeen(size=4, index=rank), rank, 1, BEGAN + ahead + late[0])] if world else []
    for step in range(1, steps + 1):
        items.append(said(StepSeen(step=10 * step), rank, 1 + step, BEGAN + 7.0 * step + ahead + late[step]))
    return items


def failed(rank: int, at: float, ahead: float) -> Evidence[Fact]:
    return said(_RAISED, rank, 900, BEGAN + at + ahead)


def finding(evidence: Sequence[Evidence[Fact]]) -> Finding:
    return Finding(
        rule="USR001",
        cause=Cause.USER_CODE_EXCEPTION,
        title="KeyError",
        because="",
        evidence=tuple(evidence),
        ranks=tuple(sorted({e.who for e in evidence if e.who is not None})),
        confidence=Confidence.ESTABLISHED,
        severity=Severity.FATAL,
        standing=Standing.EXCEPTION,
    )


def first_of(items: Sequence[Evidence[Fact]]) -> tuple[int, ...]:
    return first_rank(
        EvidenceSet(items=tuple(items)), finding([e for e in items if isinstance(e.fact, ExceptionRaised)])
    )


OFFSETS = st.one_of(
    st.just(0.0),
    st.floats(-3.0, 3.0),
    st.floats(20.0, 40_000.0),
    st.floats(-40_000.0, -20.0),
    st.integers(-48, 48).map(lambda quarters: 900.0 * quarters),
)


@settings(max_examples=120, deadline=None)
@given(
    offsets=st.lists(OFFSETS, min_size=2, max_size=9),
    steps=st.integers(4, 30),
    seed=st.integers(0, 1 << 32),
    culprit=st.integers(0, 8),
)
@example(offsets=[0.0, 0.0, 20.0, 20.0, 20.0, 0.0], steps=6, seed=742, culprit=0)
def test_the_first_rank_is_the_same_by_whatever_clocks(
    offsets: list[float], steps: int, seed: int, culprit: int
) -> None:
    draw = random.Random(seed)
    culprit %= len(offsets)
    items: list[Evidence[Fact]] = []
    for rank, ahead in enumerate(offsets):
        noise = [draw.uniform(0.0, 0.4) for _ in range(steps + 1)]
        items += log(rank, ahead, steps, noise)
        items.append(failed(rank, 7.0 * steps + (1.0 if rank == culprit else 14.0), ahead))
    draw.shuffle(items)
    found = aligned(items)
    assert first_of(found.items) == (culprit,)
    for clock in found.clocks:
        assert clock.within_s is not None
        assert clock.within_s < 1.0
        base = offsets[clock.against[0]] if clock.against else None
        for rank in clock.ranks if base is not None else ():
            # those taken as right may themselves be less than five seconds apart
            assert abs(offsets[rank] - base - clock.offset_s) <= SAME_S + 1.0


@settings(max_examples=80, deadline=None)
@given(ahead=st.one_of(st.floats(10.0, 1e5), st.floats(-1e5, -10.0)), seed=st.integers(0, 1 << 32))
@example(ahead=-91805.0, seed=0)
def test_too_few_events_correct_nothing(ahead: float, seed: int) -> None:
    late = random.Random(seed).uniform(0.6, 3.0)
    for steps, world in ((1, False), (0, True), (2, False)):
        if zone_of(ahead + late / 2) is not None and steps == 2:
            continue  # two events that show another time zone are enough
        items = [*log(0, 0.0, steps, world=world), *log(1, ahead, steps, [0.0, 0.0, late], world=world)]
        items.append(said(CollectiveTimeout(op="all_reduce"), 0, 99, BEGAN + 600.0))  # they are in step
        found = aligned(items)
        assert found.items == items
        assert not found.clocks


@settings(max_examples=80, deadline=None)
@given(aways=st.lists(st.floats(-5000.0, 5000.0), min_size=2, max_size=12))
def test_events_that_disagree_give_no_offset(aways: list[float]) -> None:
    mine = {("step", n): BEGAN + 10.0 * n + away for n, away in enumerate(aways)}
    theirs = {("step", n): BEGAN + 10.0 * n for n in range(len(aways))}
    found = estimated(mine, theirs)
    if found is None:
        return
    agree = sum(abs(away - found.offset_s) <= found.within_s + 0.51 for away in aways)
    assert agree >= 0.75 * len(aways)
    assert found.within_s <= max(SAME_S, abs(found.offset_s) / 2)


@pytest.mark.parametrize("ahead", (2.0, -4.5))
def test_clocks_that_agree_within_seconds_are_left_alone(ahead: float) -> None:
    items = [*log(0, 0.0, 20), *log(1, ahead, 20)]
    assert aligned(items).items == items


def test_another_time_zone_is_called_so_and_needs_fewer_events() -> None:
    found = aligned([*log(0, 0.0, 1), *log(1, 0.0, 1), *log(2, 9 * 3600 + 0.2, 1, [0.0, 0.4])])
    (clock,) = found.clocks
    assert (clock.ranks, clock.offset_s, clock.zone, clock.against) == ((2,), 9 * 3600.0, True, (0, 1))
    (told,) = clock_coverage(found.clocks)
    assert told.state is CoverageState.CHECKED
    assert told.what == "the clock of rank 2"
    assert told.why == (
        "9.0 h ahead of ranks 0 and 1 (another time zone), by 1 report of the world size and 1 shared step; "
        "its times were corrected"
    )


def test_ranks_of_a_node_are_named_by_it() -> None:
    items = [*log(0, 0.0, 12), *log(1, 0.0, 12)]
    for rank in (2, 3, 4):
        items += [replace(e, rank=Rank(index=rank, node="b")) for e in log(rank, 300.0, 12, world=False)]
    items += [*log(5, 0.0, 12), *log(6, 0.0, 12)]
    (told,) = clock_coverage(aligned(items).clocks)
    assert told.what == "the clock of node b"
    assert told.why == "300 s ahead of ranks 0, 1, 5 and 6, by 12 shared steps; its times were corrected"


def test_a_late_start_is_no_clock() -> None:
    late = log(1, 0.0, 8)
    late[0] = replace(late[0], at=BEGAN - 400.0)
    assert not aligned([*log(0, 0.0, 8), *late]).clocks


def test_two_lives_of_a_rank_are_no_clocks() -> None:
    first = [*log(0, 0.0, 9), *log(1, 0.0, 9)]
    again = [
        replace(e, origin=replace(e.origin, source=f"again/{e.origin.source}"), at=(e.at or 0.0) + 1000.0)
        for e in first
    ]
    assert aligned([*first, *again]).items == [*first, *again]
    named = [
        replace(e, origin=replace(e.origin, source=f"attempt_{n}/{e.rank.index if e.rank else 0}/stderr.log"))
        for n, life in enumerate((first, again))
        for e in life
    ]
    assert not aligned(named).clocks


def test_lives_in_one_log_are_compared_one_by_one() -> None:
    def both(rank: int, ahead: float) -> list[Evidence[Fact]]:
        once = log(rank, ahead, 9)
        again = [
            replace(e, origin=replace(e.origin, line=(e.origin.line or 0) + 50), at=(e.at or 0.0) + 500) for e in once
        ]
        return [*once, *again]

    (clock,) = aligned([*both(0, 0.0), *both(1, 77.0), *both(2, 0.0)]).clocks
    assert (clock.ranks, clock.offset_s, clock.events) == ((1,), 77.0, 20)


def test_ranks_that_train_alone_or_apart_are_not_in_step() -> None:
    items = [*log(0, 0.0, 9, world=False), *log(1, 300.0, 9, world=False)]
    assert not aligned(items).clocks  # nothing says that they belong together
    alone = [said(WorldSeen(size=1, index=0), rank, 1, BEGAN) for rank in (0, 1)]
    assert not aligned([*alone, *items]).clocks
    losses = [
        replace(e, fact=StepSeen(step=e.fact.step, loss=e.fact.step / 7))
        for e in items
        if isinstance(e.fact, StepSeen) and e.fact.step
    ]
    assert [c.offset_s for c in aligned(losses).clocks] == [300.0]


def test_the_same_collective_and_the_coordination_service_are_events_too() -> None:
    def ended(rank: int, ahead: float) -> list[Evidence[Fact]]:
        timeout = CollectiveTimeout(op="ALLREDUCE", seq=66, timeout_ms=600_000)
        told = GroupShutDown(how="Polled an error from coordination service (x)")
        at = BEGAN + ahead
        return [
            said(WorldSeen(size=3, index=rank), rank, 1, at),
            said(timeout, rank, 2, at + 600.1 + rank / 50),
            said(timeout, rank, 3, at + 640.0 * (1 + rank)),
            said(told, rank, 4, at + 3000.0),
        ]

    (clock,) = aligned([*ended(0, 0.0), *ended(1, -130.0), *ended(2, 0.0)]).clocks
    assert (clock.ranks, round(clock.offset_s), clock.events) == ((1,), -130, 3)
    assert "1 collective that timed out" in clock.by


def test_lines_in_utc_of_a_log_in_another_zone_are_left() -> None:
    stated = replace(said(_RAISED, 1, 90, BEGAN + 60.0), quote="E0000 00:00:1790000060.000000   77 agent.cc:1] failed")
    zone = [*log(1, 7200.0, 6), stated]
    found = aligned([*log(0, 0.0, 6), *log(2, 0.0, 6), *zone])
    assert [e.at for e in found.items if isinstance(e.fact, ExceptionRaised)] == [BEGAN + 60.0]
    assert [c.offset_s for c in found.clocks] == [7200.0]


def test_a_launchers_table_is_corrected_with_its_clock() -> None:
    gone = ProcessExited(reporter="torchrun", rank=1, code=1, first=True, failed_at=BEGAN + 400.0)
    items = [*log(0, 0.0, 6), *log(2, 0.0, 6), *log(1, 300.0, 6), said(gone, 1, 80, BEGAN + 401.0)]
    (exited,) = (e for e in aligned(items).items if isinstance(e.fact, ProcessExited))
    assert exited.at == BEGAN + 101.0
    assert isinstance(exited.fact, ProcessExited)
    assert exited.fact.failed_at == BEGAN + 100.0


def launched(start: bool, ended: float, of: Sequence[Evidence[Fact]]) -> list[Evidence[Fact]]:
    began = [said(ProcessesStarted(count=2), None, 1, BEGAN - 3.0, "launcher.log")] if start else []
    gone = said(ProcessExited(reporter="mine", rank=1, code=1), None, 2, ended, "launcher.log")
    return [*began, gone, *of]


def test_a_launchers_reports_bound_a_clock_but_are_no_point() -> None:
    own = [said(_RAISED, 1, 5, BEGAN + 3600.0), said(_RAISED, 1, 9, BEGAN + 3660.0)]
    found = aligned(launched(True, BEGAN + 70.0, own))
    (clock,) = found.clocks
    assert 3590.0 < clock.offset_s < 3603.0
    assert clock.within_s is not None
    assert clock.offset_s - clock.within_s <= 3600.0 <= clock.offset_s + clock.within_s
    one_sided = aligned(launched(False, BEGAN + 70.0, own))
    (clock,) = one_sided.clocks
    assert (clock.offset_s, clock.within_s) == (3590.0, None)
    assert [e.at for e in one_sided.items if e.rank is not None] == [e.at for e in own]
    (told,) = clock_coverage(one_sided.clocks)
    assert told.state is CoverageState.UNAVAILABLE
    assert told.why == "at least 60 min ahead, by 1 report by its launcher; its times were not compared with others"
    assert aligned(launched(True, BEGAN + 3670.0, own)).clocks == ()


def test_where_the_uncertainty_is_larger_than_the_gap_neither_is_earlier() -> None:
    alive = [said(StepSeen(step=1), rank, 1, BEGAN) for rank in (0, 1)]
    early = replace(failed(0, 100.0, 0.0), within_s=0.0)
    for within, first in ((0.0, (0,)), (5.0, (0,)), (50.0, (0, 1)), (float("inf"), (0, 1))):
        assert first_of([*alive, early, replace(failed(1, 120.0, 0.0), within_s=within)]) == first


def test_uncertain_times_do_not_make_an_exception_the_root() -> None:
    raised = finding([failed(3, 10.0, 0.0)])
    for within, root in ((1.0, raised.cause), (30.0, Cause.NETWORK_PORT_IN_USE)):
        taken = replace(
            finding([replace(failed(2, 30.0, 0.0), within_s=within)]),
            rule="NET002",
            cause=Cause.NETWORK_PORT_IN_USE,
            standing=Standing.MECHANISM,
        )
        seen = EvidenceSet(items=(*taken.evidence, *raised.evidence))
        assert in_causal_order(seen, [taken, raised])[0].cause is root


def test_a_rank_that_had_not_begun_did_not_fail_because_of_another() -> None:
    items = [failed(0, 10.0, 0.0), failed(1, 310.0, 0.0)]
    assert first_of(items) == (0, 1)
    assert first_of([*items, said(StepSeen(step=1), 1, 1, BEGAN)]) == (0,)


@pytest.mark.parametrize(
    ("ahead", "zone"), [(26 * 3600.0, 26 * 3600.0), (-26 * 3600.0, -26 * 3600.0), (27 * 3600.0, None), (450.0, None)]
)
def test_a_zone_is_a_multiple_of_a_quarter_of_an_hour_and_at_most_26_hours(ahead: float, zone: float | None) -> None:
    assert zone_of(ahead) == zone
