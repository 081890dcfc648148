# SPDX-License-Identifier: Apache-2.0
"""The wait-for graph against a simulator of collectives on meshes, in which random ranks break."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keepstep.story.wait_graph import CollectiveReach, GroupRecords, Origins, origins

Op = tuple[tuple[int, ...], int]
"""The members of a group, and its number there."""


def groups_of(shape: tuple[int, ...]) -> dict[tuple[int, int], tuple[int, ...]]:
    """The members of the group of each rank along each axis."""
    places = list(itertools.product(*(range(n) for n in shape)))
    number = {place: rank for rank, place in enumerate(places)}
    return {
        (rank, axis): tuple(number[(*p[:axis], i, *p[axis + 1 :])] for i in range(shape[axis]))
        for rank, p in enumerate(places)
        for axis in range(len(shape))
    }


@dataclass
class World:
    """Ranks on a mesh run one program; each has a host that hands collectives over, and a device that runs them in
    order.

    ``ahead``: how many collectives a host may hand over before the first of them is done.
    """

    shape: tuple[int, ...]
    program: list[int]
    """The axis of each collective."""
    ahead: int
    host_hangs: dict[int, int] = field(default_factory=dict)
    """By rank: the position in the program before which its host stops."""
    device_hangs: dict[int, int] = field(default_factory=dict)
    """By rank: the position that its device never begins."""

    def __post_init__(self) -> None:
        self.group = groups_of(self.shape)
        self.ranks = range(len(self.group) // len(self.shape))
        self.handed = dict.fromkeys(self.ranks, 0)
        self.begun = dict.fromkeys(self.ranks, 0)
        self.done = dict.fromkeys(self.ranks, 0)

    def runs_to_its_end(self) -> None:
        """Until nothing moves any more."""
        moved = True
        while moved:
            moved = False
            for rank in self.ranks:
                before = self.handed[rank], self.begun[rank], self.done[rank]
                self._move(rank)
                moved |= before != (self.handed[rank], self.begun[rank], self.done[rank])

    def _move(self, rank: int) -> None:
        end = min(len(self.program), self.host_hangs.get(rank, len(self.program)), self.done[rank] + self.ahead)
        self.handed[rank] = max(self.handed[rank], end)
        at = self.done[rank]
        if at < self.handed[rank] and at < self.device_hangs.get(rank, len(self.program)):
            self.begun[rank] = at + 1
            if all(self.begun[member] > at for member in self.group[rank, self.program[at]]):
                self.done[rank] = at + 1

    def records(self, begins: bool) -> list[GroupRecords]:
        """As a flight recorder would have them; where a backend never says what began, it says `scheduled`."""
        found: dict[tuple[int, tuple[int, ...]], GroupRecords] = {}
        for rank in self.ranks:
            counted: dict[int, int] = {}
            for position in range(self.handed[rank]):
                axis = self.program[position]
                members = self.group[rank, axis]
                counted[axis] = counted.get(axis, 0) + 1
                group = found.setdefault(
                    (axis, members), GroupRecords(f"{axis}:{members}", frozenset(members), axis=str(axis))
                )
                reached = (
                    CollectiveReach.COMPLETED
                    if position < self.done[rank]
                    else CollectiveReach.STARTED
                    if begins and position < self.begun[rank]
                    else CollectiveReach.SCHEDULED
                )
                group.by_rank.setdefault(rank, {})[counted[axis]] = reached
        return list(found.values())

    def waits_inside(self, rank: int) -> tuple[int, ...]:
        """The members that have not begun the collective in which the rank's device is."""
        at = self.done[rank]
        if self.begun[rank] <= at:
            return ()
        return tuple(m for m in self.group[rank, self.program[at]] if self.begun[m] <= at)

    def culprits(self) -> set[int]:
        """Broken ranks that somebody waits for, and that wait for nobody themselves."""
        awaited = {other for rank in self.ranks for other in self.waits_inside(rank)}
        return {rank for rank in awaited if not self.waits_inside(rank)}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    shape = draw(st.sampled_from([(2,), (3,), (8,), (2, 2), (2, 4), (4, 4), (2, 2, 2), (2, 3, 4), (8, 8)]))
    ranks = 1
    for n in shape:
        ranks *= n
    program = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=24))
    broken = draw(st.sets(st.integers(0, ranks - 1), min_size=1, max_size=3))
    positions = {rank: draw(st.integers(0, len(program) - 1)) for rank in broken}
    by_device = {rank for rank in broken if draw(st.booleans())}
    return World(
        shape,
        program,
        ahead=draw(st.sampled_from([1, 2, 5, 100])),
        host_hangs={rank: at for rank, at in positions.items() if rank not in by_device},
        device_hangs={rank: at for rank, at in positions.items() if rank in by_device},
    )


@settings(max_examples=400)
@given(worlds())
def test_exactly_the_broken_ranks_that_can_be_seen_are_named(world: World) -> None:
    world.runs_to_its_end()
    assume(any(world.begun[rank] > world.done[rank] for rank in world.ranks))  # somebody waits on its device
    found = origins(world.records(begins=True), world.ranks)
    assert {source.rank for source in found.sources} == world.culprits()
    assert not found.absent and not found.circles and not found.stuck and not found.astray
    assert {s.rank for s in found.sources} <= {*world.host_hangs, *world.device_hangs}


@settings(max_examples=300)
@given(worlds())
def test_the_same_where_the_backend_never_says_what_began_and_hosts_wait(world: World) -> None:
    """A device that does not begin looks as if it waited then, so only hosts break here."""
    world.ahead = 1
    world.host_hangs |= world.device_hangs
    world.device_hangs = {}
    world.runs_to_its_end()
    found = origins(world.records(begins=False), world.ranks)
    assert {source.rank for source in found.sources} == world.culprits()


@settings(max_examples=100)
@given(worlds(), st.data())
def test_a_rank_without_a_record_is_named_as_that(world: World, data: st.DataObject) -> None:
    world.runs_to_its_end()
    gone = data.draw(st.sampled_from(sorted({*world.host_hangs, *world.device_hangs})))
    groups = world.records(begins=True)
    for group in groups:
        group.by_rank.pop(gone, None)
    found = origins(groups, set(world.ranks) - {gone})
    assert all(source.rank == gone for source in found.absent)
    assert {s.rank for s in found.sources} <= {*world.host_hangs, *world.device_hangs}


@dataclass
class Skipping:
    """Ranks on a mesh whose hosts wait in every collective; one of them leaves some out and goes on."""

    shape: tuple[int, ...]
    program: list[int]
    rank: int
    left_out: frozenset[int]
    """Positions in the program."""

    def __post_init__(self) -> None:
        self.group = groups_of(self.shape)
        self.ranks = range(len(self.group) // len(self.shape))
        rest = [axis for position, axis in enumerate(self.program) if position not in self.left_out]
        self.programs = {rank: rest if rank == self.rank else self.program for rank in self.ranks}
        self.done = dict.fromkeys(self.ranks, 0)

    def runs_to_its_end(self) -> None:
        while any([self._ends(rank) for rank in self.ranks]):
            pass

    def _ends(self, rank: int) -> bool:
        at, program = self.done[rank], self.programs[rank]
        if at == len(program):
            return False
        axis, number = program[at], self.entered(rank, program[at])
        ends = all(self.entered(member, axis) >= number for member in self.group[rank, axis])
        self.done[rank] += ends
        return ends

    def entered(self, rank: int, axis: int) -> int:
        return self.programs[rank][: self.done[rank] + 1].count(axis)

    def records(self) -> list[GroupRecords]:
        found: dict[object, GroupRecords] = {}
        for (rank, axis), members in self.group.items():
            group = found.setdefault((axis, members), GroupRecords(f"{axis}:{members}", frozenset(members)))
            group.axis = str(axis)
            ended = self.programs[rank][: self.done[rank]].count(axis)
            group.by_rank[rank] = {
                n: CollectiveReach.COMPLETED if n <= ended else CollectiveReach.SCHEDULED
                for n in range(1, self.entered(rank, axis) + 1)
            }
        return list(found.values())


@st.composite
def skipping(draw: st.DrawFn) -> Skipping:
    shape = draw(st.sampled_from([(2, 2), (2, 4), (4, 4), (2, 2, 2), (2, 3, 4), (8, 8)]))
    step = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=6))
    program = step * draw(st.integers(1, 5))
    rank = draw(st.integers(0, len(groups_of(shape)) // len(shape) - 1))
    first = draw(st.integers(0, len(program) - 1))
    after = [position for position in range(first, len(program)) if program[position] == program[first]]
    return Skipping(shape, program, rank, frozenset(draw(st.sampled_from([after, after[:1]]))))


@settings(max_examples=600)
@given(skipping())
def test_a_rank_that_leaves_a_collective_out_and_goes_on_is_the_only_one_named(world: Skipping) -> None:
    world.runs_to_its_end()
    found = origins(world.records(), world.ranks)
    named = {source.rank for source in found.sources} | {each.rank for each in (found.astray,) if each}
    assert named == {world.rank}


def test_a_circle_on_a_mesh_was_begun_by_the_rank_that_is_ahead_and_behind_at_once() -> None:
    """As in the lab: rank 5 of 2 x 2 x 2 leaves out what it should exchange with rank 1, from one step on."""
    program = [2, 0, 0, 0] * 8
    left_out = frozenset(n for n in range(16, len(program)) if program[n] == 0)
    world = Skipping((2, 2, 2), program, 5, left_out)
    world.runs_to_its_end()
    found = origins(world.records(), world.ranks)
    assert found.circles == ((0, 1, 4, 5),) and not found.sources
    assert found.astray is not None and (found.astray.rank, found.astray.waiting) == (5, (1,))


def test_of_two_ranks_that_are_ahead_of_each_other_neither_is_named() -> None:
    one = GroupRecords(
        "a", frozenset({0, 1}), {0: {3: CollectiveReach.SCHEDULED}, 1: {2: CollectiveReach.COMPLETED}}, axis="a"
    )
    other = GroupRecords(
        "b", frozenset({0, 1}), {0: {2: CollectiveReach.COMPLETED}, 1: {3: CollectiveReach.SCHEDULED}}, axis="b"
    )
    found = origins([one, other])
    assert found.circles == ((0, 1),) and found.astray is None


def test_a_rank_that_waits_in_something_unrecorded_is_no_source() -> None:
    waited = group(
        "a", r0={7: CollectiveReach.SCHEDULED}, r1={6: CollectiveReach.COMPLETED}, r2={6: CollectiveReach.COMPLETED}
    )
    assert [source.rank for source in origins([waited]).sources] == [1, 2]
    assert [source.rank for source in origins([waited], waiting=(2,)).sources] == [1]


def test_five_hundred_ranks_wait_for_two() -> None:
    world = World((8, 8, 8), [2, 1, 0, 2, 0], ahead=100, host_hangs={77: 3}, device_hangs={300: 2})
    world.runs_to_its_end()
    found = origins(world.records(begins=True), world.ranks)
    assert {(s.rank, s.how) for s in found.sources} == {(77, "not scheduled"), (300, "not started")}


def group(name: str, **by_rank: dict[int, CollectiveReach]) -> GroupRecords:
    records = {int(rank.removeprefix("r")): dict(reached) for rank, reached in by_rank.items()}
    return GroupRecords(name, frozenset(records), records)


def test_ranks_that_enter_two_groups_in_different_orders_are_a_circle() -> None:
    one = GroupRecords("a", frozenset({0, 1}), {0: {1: CollectiveReach.STARTED}})
    other = GroupRecords("b", frozenset({0, 1}), {1: {1: CollectiveReach.STARTED}})
    assert origins([one, other]) == Origins(circles=((0, 1),))


def test_a_collective_that_runs_everywhere_and_ends_nowhere_blames_no_rank() -> None:
    running = group(
        "a", r0={7: CollectiveReach.STARTED}, r1={7: CollectiveReach.STARTED}, r2={7: CollectiveReach.STARTED}
    )
    (stuck,) = origins([running]).stuck
    assert (stuck.at.number, stuck.unfinished) == (7, (0, 1, 2)) and not origins([running]).sources


def test_the_rank_that_does_not_finish_what_others_have_finished() -> None:
    ahead = group(
        "a",
        r0={7: CollectiveReach.COMPLETED, 8: CollectiveReach.STARTED},
        r1={7: CollectiveReach.STARTED, 8: CollectiveReach.SCHEDULED},
        r2={7: CollectiveReach.COMPLETED, 8: CollectiveReach.STARTED},
    )
    found = origins([ahead])
    assert [each.unfinished for each in found.stuck] == [(1,)] and not found.sources


def test_nobody_waits_where_all_is_done() -> None:
    assert origins([group("a", r0={1: CollectiveReach.COMPLETED}, r1={1: CollectiveReach.COMPLETED})]) == Origins()
