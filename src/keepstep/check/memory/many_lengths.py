# SPDX-License-Identifier: Apache-2.0
"""Batches of many lengths: what the allocator reserves when step follows step, each of another length. Pure.

The steps that the dry run saw are played on, each storage with a size between those that it had in two of them: blocks
of one length do not fit a longer one, so more is reserved with every batch that is the longest so far.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from statistics import median
from typing import Any

from keepstep.check.memory.allocator import Allocator

MOST_STEPS = 200
MOST_EVENTS = 400_000
LOTS = 3
IN_ORDER = 0.9
"""So many pairs of steps must hold more with the larger batch."""
LEAST_DIFFERENCE = 0.005
"""Steps whose storages together differ by less are of one length."""
OPTIMIZERS = 3
"""At most so many take turns."""

Event = tuple[int, int]
Place = tuple[int, int]
"""How many steps ago a storage was born, and as which of that step."""


@dataclass
class _Step:
    """``ends``: behind its last event, ``marks``: the optimizers' steps until then. ``acts``: a birth (None), or the
    death of one."""

    ends: int
    marks: int
    births: list[Event]
    acts: list[Place | None]

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.births)


def reserved_over_many(
    events: Sequence[Event], given: Sequence[tuple[int, int]] = (), ahead: tuple[int, Sequence[int]] | None = None
) -> int | None:
    """Bytes at most, if steps of several lengths follow each other for long; None if all were of one length.

    ``given``: after how many steps of optimizers a loader gave a batch, and its size; ``ahead``: after how many it was
    looked which sizes come then. Where that is not known, lengths are drawn by lot, up to a longer one than was seen:
    the longest of many is.
    """
    alike = _alike(events)
    sums = [each.bytes for each in alike]
    if len(alike) < 2 or max(sums) - min(sums) < LEAST_DIFFERENCE * max(sums):
        return None
    sizes = [[size for _, size in each.births] for each in sorted(alike, key=lambda each: each.bytes)]
    known = _by_batch(alike, given) if ahead else []
    if ahead and known:
        first = [each for each in alike if each.marks <= ahead[0]] or alike[:1]
        return _played_on(events, first[-1], (_at(known, size) for size in ahead[1]))
    if not ahead:
        sizes.append(_mixed(sizes[0], sizes[-1], 1 + 1 / (len(sizes) - 1)))
    return int(median(_played_on(events, alike[-1], _by_lot(sizes, random.Random(lot))) for lot in range(LOTS)))


def _by_batch(alike: list[_Step], given: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """The sizes of the batches of these steps, in order, with what each step held; a loader may be one batch ahead."""
    for ahead in (0, 1):
        found = []
        for step in alike:
            before = [size for marks, size in given if marks < step.marks]
            if len(before) > ahead:
                found.append((before[-1 - ahead], step.bytes, [size for _, size in step.births]))
        found.sort(key=lambda each: each[:2])
        pairs = [(one[1], other[1]) for one, other in combinations(found, 2) if one[0] < other[0]]
        if pairs and sum(one < other for one, other in pairs) >= IN_ORDER * len(pairs):
            return [(size, held) for size, _, held in found]
    return []


def _at(known: list[tuple[int, list[int]]], size: int) -> list[int]:
    """What a step with a batch of this size holds: between the two of the nearest sizes."""
    (low, one), (high, other) = known[0], known[-1]
    for each, held in known:
        if low < each <= size:
            low, one = each, held
        if size <= each < high:
            high, other = each, held
    return _mixed(one, other, (size - low) / (high - low)) if high > low else one


def _by_lot(sizes: list[list[int]], lot: random.Random) -> Iterator[list[int]]:
    for _ in range(MOST_STEPS):
        one, other = lot.sample(sizes, 2)
        yield _mixed(one, other, lot.random())


def _mixed(one: list[int], other: list[int], share: float) -> list[int]:
    return [int(a + share * (b - a)) for a, b in zip(one, other, strict=True)]


def _played_on(events: Sequence[Event], first: _Step, sizes: Iterable[list[int]]) -> int:
    """What is reserved when after the ``first`` step come others with these sizes."""
    allocator = Allocator()
    blocks: dict[int, Any] = {}
    for number, size in events[: first.ends]:
        if number >= 0 and size > 0:
            blocks[number] = allocator.allocate(size)
        elif number in blocks:
            allocator.free(blocks.pop(number))
    steps = [{place: blocks[number] for place, (number, _) in enumerate(first.births) if number in blocks}]
    for each in islice(sizes, MOST_EVENTS // len(first.acts)):
        steps.append({})
        number = 0
        for act in first.acts:
            if act is None:
                steps[-1][number] = allocator.allocate(max(1, each[number]))
                number += 1
            elif act[0] < len(steps) and (block := steps[-1 - act[0]].pop(act[1], None)) is not None:
                allocator.free(block)
    return allocator.reserved


def _alike(events: Sequence[Event]) -> list[_Step]:
    """The steps that do the same with storages of other sizes: the most that do."""
    found: list[_Step] = []
    for each in range(1, OPTIMIZERS + 1):
        by_acts: dict[tuple[Place | None, ...], list[_Step]] = {}
        for step in _steps(events, each):
            by_acts.setdefault(tuple(step.acts), []).append(step)
        best = max(by_acts.values(), key=len, default=[])
        if each * len(best) > OPTIMIZERS * len(found):
            found = best
    return found


def _steps(events: Sequence[Event], marks: int) -> list[_Step]:
    """What follows the first ``marks`` steps of optimizers, cut after every so many."""
    born: dict[int, Place] = {}
    found: list[_Step] = []
    step, seen = _Step(0, 0, [], []), 0
    for index, (number, size) in enumerate(events):
        if number < 0:
            seen += 1
            if seen % marks == 0 and step.births:
                step.ends, step.marks = index + 1, seen
                found.append(step)
                step = _Step(0, 0, [], [])
        elif size > 0:
            born[number] = len(found), len(step.births)
            step.births.append((number, size))
            step.acts.append(None)
        elif number in born:
            when, which = born.pop(number)
            step.acts.append((len(found) - when, which))
    return found[1:]
