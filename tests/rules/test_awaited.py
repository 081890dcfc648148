# SPDX-License-Identifier: Apache-2.0
"""Whom all ranks wait for, by what the guards noted about every group: the same culprits as by a recorder's dumps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import CollectivesIssued, RankDoing, RankStopped
from keepstep.model.identity import Rank
from keepstep.rules.sync._awaited import by_guards, by_steps
from keepstep.story.wait_graph import CollectiveReach, GroupRecords
from tests.rules.test_stacks import ALL_REDUCE, SLEEP, TRAIN, live, py, report
from tests.story.test_wait_graph import Skipping, World, skipping, worlds


def of(fact: Fact, rank: int) -> Evidence[Fact]:
    return Evidence(fact=fact, origin=Origin(source=f"rank{rank}"), rank=Rank(index=rank), at=1.0)


def noted(groups: list[GroupRecords], waiting: set[int] = frozenset(), steps: int = 4) -> list[Evidence[Fact]]:  # type: ignore[assignment]
    """What the guard of each rank writes about its groups once it makes no progress."""
    found: list[Evidence[Fact]] = []
    for group in groups:
        for rank, reached in group.by_rank.items():
            if reached:
                fact = CollectivesIssued(
                    group=group.name.replace(" ", ""),
                    issued=tuple((n, "all_reduce", "all_reduce", "train.py:20") for n in sorted(reached)),
                    steps=steps,
                    members=tuple(sorted(group.members)),
                    axis=group.axis,
                    done=max((n for n, r in reached.items() if r is CollectiveReach.COMPLETED), default=None),
                    waits=rank in waiting,
                )
                found.append(of(fact, rank))
    return found


def doing(ranks: range, steps: int = 4) -> list[Evidence[Fact]]:
    return [of(RankDoing(phase="compute", steps=steps, silent_s=90.0, alive=True), rank) for rank in ranks]


def named(items: list[Evidence[Fact]]) -> set[int]:
    found = by_guards(EvidenceSet(items=tuple(items)))
    return set(found.ranks) if found is not None else set()


@settings(max_examples=200)
@given(worlds())
def test_exactly_the_ranks_that_stopped_are_named_on_any_mesh(world: World) -> None:
    world.ahead = 1
    world.host_hangs |= world.device_hangs
    world.device_hangs = {}
    world.runs_to_its_end()
    items = noted(world.records(begins=False)) + doing(world.ranks)
    spoke = {each.who for each in items if isinstance(each.fact, CollectivesIssued)}
    assert named(items) == (world.culprits() & spoke if len(spoke) > 1 else set())


@settings(max_examples=200)
@given(skipping())
def test_nobody_but_the_rank_that_left_a_collective_out_is_named(world: Skipping) -> None:
    world.runs_to_its_end()
    assert named(noted(world.records()) + doing(world.ranks)) <= {world.rank}


def circle() -> Skipping:
    """As in the lab: rank 5 of 2 x 2 x 2 leaves out what it should exchange with rank 1."""
    program = [2, 0, 0, 0] * 8
    world = Skipping((2, 2, 2), program, 5, frozenset(n for n in range(16, len(program)) if program[n] == 0))
    world.runs_to_its_end()
    return world


def test_notes_that_a_rank_has_outrun_count_no_more() -> None:
    """A guard notes only its first standstills; a later one is another."""
    notes = noted(circle().records())
    assert named(notes + doing(range(8))) == {5}
    assert named(notes + doing(range(8), steps=9)) == set()


def test_a_rank_that_waits_in_a_recv_is_not_the_one_to_blame() -> None:
    waited = [
        GroupRecords("1", frozenset({0, 1, 2}), {0: {7: CollectiveReach.SCHEDULED}, 1: {6: CollectiveReach.COMPLETED}})
    ]
    waited[0].by_rank[2] = {6: CollectiveReach.COMPLETED}
    assert named(noted(waited, {0, 2}) + doing(range(3))) == {1}


def stacks_of_the_mesh() -> list[Evidence[Fact]]:
    """Where the ranks of the lab's mesh hang: 0 and 5 in forward, 2 and 3 in recv, the others in the exchange."""
    recv = py("/venv/site-packages/torch/distributed/distributed_c10d.py", "recv", 2799)
    places = {0: (*ALL_REDUCE, py("/job/train.py", "forward", 27)), 2: (recv, py("/job/train.py", "back", 87))}
    places |= {5: places[0], 3: places[2]}
    items: list[Evidence[Fact]] = []
    for rank in range(8):
        items += live(rank, *places.get(rank, (*ALL_REDUCE, TRAIN)), world=8)
    return items


def test_stacks_alone_do_not_show_who_began_a_circle_on_a_mesh() -> None:
    root = report(*stacks_of_the_mesh()).root
    assert root is not None and (root.cause, root.ranks) == (Cause.SYNC_COLLECTIVE_MISMATCH, ())


def test_with_the_guards_notes_they_do() -> None:
    root = report(*stacks_of_the_mesh(), *noted(circle().records()), *doing(range(8))).root
    assert root is not None and (root.cause, root.ranks) == (Cause.SYNC_COLLECTIVE_MISMATCH, (5,))
    assert "all waits lead to rank 5, which did not join all_reduce #13" in root.because


def test_of_two_ranks_that_are_elsewhere_the_one_that_others_wait_for_is_named() -> None:
    """Rank 3 has come to its sleep too, but nobody is in a collective with it yet."""
    groups = [
        GroupRecords("1", frozenset({0, 1}), {0: {7: CollectiveReach.SCHEDULED}, 1: {6: CollectiveReach.COMPLETED}})
    ]
    groups.append(
        GroupRecords("2", frozenset({2, 3}), {2: {6: CollectiveReach.COMPLETED}, 3: {6: CollectiveReach.COMPLETED}})
    )
    recv = py("/venv/site-packages/torch/distributed/distributed_c10d.py", "recv", 2799)
    items = [*live(0, *ALL_REDUCE, TRAIN, world=4), *live(2, recv, TRAIN, world=4)]
    items += [*live(1, *SLEEP, TRAIN, world=4), *live(3, *SLEEP, TRAIN, world=4)]
    assert [each.ranks for each in report(*items).findings] == [(1, 3)]
    assert [each.ranks for each in report(*items, *noted(groups, {0, 2}), *doing(range(4))).findings] == [(1,)]


def test_black_boxes_and_notes_without_any_stack_name_the_same_rank() -> None:
    stopped = [of(RankStopped(phase="compute", steps=4, seconds=90.0, proven=True), 0)]
    root = report(*noted(circle().records()), *doing(range(8)), *stopped).root
    assert root is not None and (root.cause, root.ranks) == (Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, (5,))


@pytest.mark.parametrize(
    ("at", "culprits"),
    [
        ({0: (5, "compute"), 1: (5, "compute"), 2: (5, "input")}, (2,)),
        ({0: (5, "checkpoint"), 1: (5, "compute"), 2: (5, "compute")}, (0,)),
        ({0: (5, "compute"), 1: (4, "compute"), 2: (5, "compute")}, (1,)),
        ({0: (5, "end"), 1: (5, "compute")}, (0,)),
        ({0: (5, "compute"), 1: (5, "compute")}, ()),
        ({0: (5, "input"), 1: (5, "input")}, ()),
    ],
)
def test_steps_and_phases_show_the_rank_that_is_elsewhere(
    at: dict[int, tuple[int, str]], culprits: tuple[int, ...]
) -> None:
    first = RankDoing(phase="", steps=0)
    boxes = {rank: of(replace(first, phase=phase, steps=steps), rank) for rank, (steps, phase) in at.items()}
    assert by_steps(boxes) == culprits  # type: ignore[arg-type]
