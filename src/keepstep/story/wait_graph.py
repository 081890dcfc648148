# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom in collectives, over all groups, followed to the ranks that wait for nobody. Pure.

A rank waits for another in one of two ways: it is in a collective that the other has not been handed yet, or that
the other's device has not begun. What a rank itself waits for decides whether it is the cause or only passes the
wait on. Where the recorder's backend never says that a collective began (gloo), a rank is taken to be in its first
unfinished collective.

A rank that leaves out a collective may wait as well, in a later one, until all ranks wait in a circle. Its counts show
it: on a mesh all ranks run the same program, so of two ranks one is ahead along every axis, or level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import combinations
from typing import TypeAlias


class CollectiveReach(IntEnum):
    """How far a rank came with one collective."""

    MISSING = 0
    SCHEDULED = 1
    STARTED = 2
    COMPLETED = 3


@dataclass
class GroupRecords:
    """What the ranks recorded of one group: ``by_rank[rank][number]``. ``members``: empty where nobody lists them.

    ``axis``: what groups along one axis of a mesh have in common; empty if unknown.
    """

    name: str
    members: frozenset[int] = frozenset()
    by_rank: dict[int, dict[int, CollectiveReach]] = field(default_factory=dict)
    axis: str = ""

    def reached(self, rank: int, number: int) -> CollectiveReach:
        """Old entries are overwritten, so what is below the first record was finished."""
        records = self.by_rank.get(rank)
        if not records or number > max(records):
            return CollectiveReach.MISSING
        return records.get(number, CollectiveReach.COMPLETED)

    def first_pending(self, rank: int) -> int | None:
        return min(
            (n for n, reached in self.by_rank.get(rank, {}).items() if reached < CollectiveReach.COMPLETED),
            default=None,
        )

    @property
    def everyone(self) -> frozenset[int]:
        return self.members | frozenset(self.by_rank)


@dataclass(frozen=True)
class Collective:
    """One numbered collective of one group."""

    group: str
    number: int


@dataclass(frozen=True)
class WaitSource:
    """A rank that others wait for and that waits for nobody. ``how``: ``not scheduled`` or ``not started``."""

    rank: int
    at: Collective
    how: str
    waiting: tuple[int, ...]


@dataclass(frozen=True)
class Stuck:
    """A collective that runs on all of its members and is finished on none, or not on ``unfinished``."""

    at: Collective
    unfinished: tuple[int, ...]


@dataclass(frozen=True)
class Origins:
    """Where all waiting comes from."""

    sources: tuple[WaitSource, ...] = ()
    absent: tuple[WaitSource, ...] = ()
    """Members that others wait for and of which there is no record at all."""
    circles: tuple[tuple[int, ...], ...] = ()
    """Ranks that wait for each other: they entered collectives of several groups in different orders."""
    stuck: tuple[Stuck, ...] = ()
    astray: WaitSource | None = None
    """The one rank that others wait for and whose counts along the axes fit to no other's."""


@dataclass
class _WaitGraph:
    """Ranks point to the collectives they are in, collectives to the members that have not come: as large as the
    records."""

    inside: dict[int, list[Collective]] = field(default_factory=dict)
    waiting: dict[Collective, list[int]] = field(default_factory=dict)
    lacking: dict[Collective, dict[int, str]] = field(default_factory=dict)
    stuck: list[Stuck] = field(default_factory=list)

    def add(self, at: Collective, ranks: list[int], lacking: dict[int, str]) -> None:
        self.waiting[at], self.lacking[at] = ranks, lacking
        for rank in ranks:
            self.inside.setdefault(rank, []).append(at)

    def after(self, node: _Node) -> Iterable[_Node]:
        return self.lacking[node] if isinstance(node, Collective) else self.inside.get(node, ())


_Node: TypeAlias = "int | Collective"


def origins(groups: Iterable[GroupRecords], recorded: Iterable[int] = (), waiting: Iterable[int] = ()) -> Origins:
    """``recorded``: ranks whose record is here, even where it is empty.

    ``waiting``: ranks that are known to wait for others, even where it is not recorded in what.
    """
    found = list(groups)
    known = {*recorded, *(rank for group in found for rank in group.by_rank)}
    begins = any(
        r is CollectiveReach.STARTED for g in found for records in g.by_rank.values() for r in records.values()
    )
    graph = _WaitGraph()
    for group in found:
        _enter(group, begins, graph)
    awaited: dict[int, list[Collective]] = {}
    for at, lacking in graph.lacking.items():
        for rank in lacking:
            awaited.setdefault(rank, []).append(at)
    held = {rank for each in graph.stuck for rank in each.unfinished}.union(waiting)
    astray = _off_the_path(found)
    ends = [rank for rank in sorted(awaited) if rank not in graph.inside and rank not in held]
    return Origins(
        sources=tuple(_source(rank, awaited[rank], graph) for rank in ends if rank in known),
        absent=tuple(_source(rank, awaited[rank], graph) for rank in ends if rank not in known),
        circles=tuple(sorted(_circles(graph))),
        stuck=tuple(graph.stuck),
        astray=_source(astray, awaited[astray], graph) if astray in awaited else None,
    )


MOST_PLACES = 500
"""Ranks that hang are at a few places of their program; with more than this, nothing is compared."""


def _off_the_path(groups: list[GroupRecords]) -> int | None:
    """The one rank whose counts are ahead of others' along one axis of a mesh and behind along another."""
    counts: dict[int, dict[str, int]] = {}
    for group in groups:
        for rank, records in group.by_rank.items() if group.axis else ():
            counts.setdefault(rank, {})[group.axis] = max(records, default=0)
    axes = tuple(sorted({axis for each in counts.values() for axis in each}))
    places: dict[tuple[int, ...], list[int]] = {}
    for rank, reached in counts.items():
        if len(reached) == len(axes):
            places.setdefault(tuple(reached[axis] for axis in axes), []).append(rank)
    if len(places) > MOST_PLACES:
        return None
    apart = [pair for pair in combinations(places, 2) if not _in_order(*pair)]
    guilty = [place for place in places if apart and all(place in pair for pair in apart)]
    few = min((len(places[place]) for place in guilty), default=0)
    found = [places[place] for place in guilty if len(places[place]) == few]
    return found[0][0] if few == 1 and len(found) == 1 else None


def _in_order(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)


def _enter(group: GroupRecords, begins: bool, graph: _WaitGraph) -> None:
    """Each rank waits in the first unfinished collective of each group: the later ones queue behind it."""
    pending: dict[int, list[int]] = {}
    for rank in sorted(group.by_rank):
        number = group.first_pending(rank)
        if number is not None:
            pending.setdefault(number, []).append(rank)
    for number, ranks in sorted(pending.items()):
        at = Collective(group.name, number)
        reached = {member: group.reached(member, number) for member in sorted(group.everyone)}
        inside = [r for r in ranks if not begins or reached.get(r) is CollectiveReach.STARTED]
        lacking = {member: how for member, r in reached.items() if (how := _lacks(r, begins)) is not None}
        if inside and lacking:
            graph.add(at, inside, lacking)
        elif inside:
            graph.stuck.append(Stuck(at, tuple(m for m, r in reached.items() if r < CollectiveReach.COMPLETED)))


def _lacks(reached: CollectiveReach, begins: bool) -> str | None:
    if reached is CollectiveReach.MISSING:
        return "not scheduled"
    return "not started" if begins and reached is CollectiveReach.SCHEDULED else None


def _source(rank: int, at: list[Collective], graph: _WaitGraph) -> WaitSource:
    """By the collective in which most ranks wait for it."""
    most = max(at, key=lambda each: len(graph.waiting[each]))
    return WaitSource(
        rank, most, graph.lacking[most][rank], tuple(sorted({r for each in at for r in graph.waiting[each]}))
    )


def _circles(graph: _WaitGraph) -> Iterator[tuple[int, ...]]:
    """Ranks that wait for each other and for nobody else: strongly connected parts without a way out (Tarjan)."""
    index: dict[_Node, int] = {}
    low: dict[_Node, int] = {}
    stack: list[_Node] = []
    open_: set[_Node] = set()
    for root in graph.inside:
        work: list[tuple[_Node, Iterator[_Node]]] = []
        following: _Node | None = root if root not in index else None
        while following is not None or work:
            if following is not None:
                index[following] = low[following] = len(index)
                stack.append(following)
                open_.add(following)
                work.append((following, iter(graph.after(following))))
            node, others = work[-1]
            following = None
            for other in others:
                if other not in index:
                    following = other
                    break
                if other in open_:
                    low[node] = min(low[node], index[other])
            if following is not None:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                part = _popped(stack, node)
                open_ -= part
                if len(part) > 1 and all(after in part for each in part for after in graph.after(each)):
                    yield tuple(sorted(each for each in part if isinstance(each, int)))


def _popped(stack: list[_Node], last: _Node) -> set[_Node]:
    part = {stack.pop()}
    while last not in part:
        part.add(stack.pop())
    return part
