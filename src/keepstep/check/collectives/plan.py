# SPDX-License-Identifier: Apache-2.0
"""Which collectives are tried, between whom, how large, and with which values. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 16 * MIB, 4 * MIB, 256 * KIB)
"""Bytes that each rank gives or gets, and one element more: libraries change their algorithm at round numbers.
The extremes come first, and pairs between them: where time is short, they say most."""
OTHER_TYPES = 256 * KIB
"""Types after the first are tried with this size only, and last: a backend that lacks one may break its groups."""
TOGETHER = 48 * MIB
"""Where all ranks share one host, a group gives no more than this."""
LINK_SIZE = 4 * MIB
LINK_SIZE_GPU = 32 * MIB
ROUNDS = 8
MOST_FOR_LINKS = 16
"""Up to this many ranks, every pair is tried on its own."""
EXACT = {"float32": 1 << 24, "float64": 1 << 53, "bfloat16": 1 << 8, "float16": 1 << 11, "int32": 1 << 31}
"""Integers up to this one are exact."""
BYTES = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2, "int32": 4}
APART = 1009
"""What two neighbouring ranks give is the same numbers, so many places apart."""
EVEN = ("reduce_scatter", "all_to_all")
"""Those that divide what each rank gives among the group."""
OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")


class Trial(NamedTuple):
    operation: str
    dtype: str
    elements: int
    """That each rank gives."""
    groups: tuple[tuple[int, ...], ...]
    """All of them at once. A rank that is in none has nothing to do."""
    of_links: bool = False
    """One of the trials that are about single pairs."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the user asked for."""

    framework: str = ""
    backend: str = ""
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    largest: int = max(SIZES)
    rounds: int = ROUNDS
    ranks: int = 2
    """How many to start, where no launcher has."""
    devices: int = 1
    """Of each process, in JAX on CPUs."""
    on_this_host: int = 1
    """How many ranks share it, where all do."""
    limit_s: float = 110.0
    link_size: int = LINK_SIZE
    """Bytes, where pairs are tried on their own."""
    operations: tuple[str, ...] = field(default=OPERATIONS)


def trials(plan: Plan, world: int) -> Iterator[Trial]:
    """In order. Every group runs at the same time as the others of its kind."""
    smallest, *sizes = [size for size in SIZES if size <= plan.largest] or [plan.largest]
    first, *others = plan.dtypes
    yield from _of(plan, world, smallest, first)
    if 2 <= world <= MOST_FOR_LINKS and "all_reduce" in plan.operations:
        for pairs in _pairings(world):
            yield Trial("all_reduce", "float32", plan.link_size // 4 + 1, pairs, of_links=True)
    for size in sizes:
        yield from _of(plan, world, size, first)
    for dtype in others:
        yield from _of(plan, world, OTHER_TYPES, dtype)


def _of(plan: Plan, world: int, size: int, dtype: str) -> Iterator[Trial]:
    for groups in _divisions(world):
        for operation in plan.operations:
            members = len(groups[0])
            least = min(size, TOGETHER // min(members, plan.on_this_host)) if plan.on_this_host > 1 else size
            yield Trial(operation, dtype, _elements(operation, least // BYTES[dtype], members), groups)


def _elements(operation: str, count: int, group: int) -> int:
    if operation == "all_gather":
        return count // group + 1
    return -(-count // group) * group if operation in EVEN else count + 1


def _divisions(world: int) -> list[tuple[tuple[int, ...], ...]]:
    """All together; neighbours in pairs; two halves, every other rank."""
    everyone = tuple(range(world))
    found: list[tuple[tuple[int, ...], ...]] = [(everyone,)]
    if world >= 4 and world % 2 == 0:
        found += [tuple((rank, rank + 1) for rank in range(0, world, 2)), (everyone[::2], everyone[1::2])]
    return found


def _pairings(world: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every pair once, in rounds in which nobody is in two."""
    seats: list[int | None] = [*range(world), *([None] if world % 2 else [])]
    for _ in range(len(seats) - 1):
        both = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        yield tuple((min(a, b), max(a, b)) for a, b in both if a is not None and b is not None)
        seats = [seats[0], seats[-1], *seats[1:-1]]


def top(dtype: str, group: int) -> int:
    """Values are below this one: the sum over a group is exact then."""
    return max(2, min(251, EXACT[dtype] // group))


def numbers(trial: Trial, index: Any) -> Any:
    """Whole numbers, of which every rank gives a part. ``index``: as many 64-bit integers as ``length`` says."""
    return ((index * 2654435761 + 13) >> 7) % top(trial.dtype, len(trial.groups[0]))


def length(trial: Trial, world: int) -> int:
    return trial.elements + world * APART


def given(trial: Trial, known: Any, rank: int) -> Any:
    """All that a rank gives, of the ``known`` numbers: differs from rank to rank and place to place."""
    return known[rank * APART : rank * APART + trial.elements]


def wanted(trial: Trial, known: Any, rank: int, joined: Any) -> Any:
    """What a rank must get. ``joined`` puts a list of arrays one behind the other."""
    group = next(each for each in trial.groups if rank in each)
    place, share = group.index(rank), trial.elements // len(group)
    own = slice(place * share, (place + 1) * share) if trial.operation in EVEN else slice(None)
    parts = [given(trial, known, each)[own] for each in group]
    if trial.operation in ("all_reduce", "reduce_scatter"):
        return sum(parts)
    return parts[0] if trial.operation == "broadcast" else joined(parts)
