# SPDX-License-Identifier: Apache-2.0
"""The trail of collectives that each rank of a group issued, and the first one on which they differ. Pure.

A rank that is merely slow has issued fewer. Only a different collective under the same number is a mismatch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

OPERATIONS = tuple(
    """
    all_reduce broadcast reduce all_gather all_gather_into_tensor all_gather_single gather scatter reduce_scatter
    reduce_scatter_tensor reduce_scatter_single all_to_all all_to_all_single barrier monitored_barrier
    all_gather_object broadcast_object_list gather_object scatter_object_list
    """.split()
)
"""In the order in which the black box numbers them: only add at the end."""
DTYPES = tuple(
    """
    uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128
    bool bfloat16 float8_e4m3fn float8_e5m2 uint16 uint32 uint64
    """.split()
)
BITS = {
    **dict.fromkeys(("uint8", "int8", "bool"), 8),
    **dict.fromkeys(("int16", "float16", "bfloat16", "uint16"), 16),
    **dict.fromkeys(("int64", "float64", "uint64", "complex64"), 64),
    "complex128": 128,
}
SIZED = ("all_reduce", "reduce", "reduce_scatter")
"""All ranks must bring equally many elements of one type; others that move tensors need not (an uneven gather)."""
BYTES = ("broadcast",)
OBJECTS = {
    "all_gather_object": "all_gather",
    "broadcast_object_list": "broadcast",
    "gather_object": "all_gather",
    "scatter_object_list": "broadcast",
}
"""The sizes, which a function for Python objects issues first."""
ALIKE = 8
"""This many collectives (or all) before the first difference must match: else the ranks count differently."""
LONGEST_CONTEXT = 12
SCRIPTS = "script"
"""The group a black box uses for what the script itself issued, on any group."""
LINE_BITS = 20
MOST_FILES = 1 << 11


class TrailEntry(NamedTuple):
    """One collective of one rank."""

    sequence: int
    """Its number in the group."""
    key: str
    """What must be the same on every rank."""
    words: str
    line: str = ""
    """Where the script issued it; empty for what DDP, FSDP or compiled code issues below Python."""


@dataclass(frozen=True)
class Mismatch:
    """The first collective on which ranks differ."""

    sequence: int
    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    """Each value with its ranks, the most common first."""
    group: str = ""
    odd: tuple[int, ...] = ()
    """The ranks that deviated from what all did before; empty: unknown."""
    places: tuple[tuple[int, str], ...] = ()
    """The line of the script where each rank issued its own."""

    def __str__(self) -> str:
        places = dict(self.places)
        parts = []
        for value, ranks in self.values:
            line = next((places[rank] for rank in ranks if places.get(rank)), "")
            where, whose = f" at {line}" if line else "", "ranks" if len(ranks) > 1 else "rank"
            parts.append(f"{value}{where} on {whose} {', '.join(map(str, ranks[:8]))}")
        return f"{self.what}: {' but '.join(parts)}"


def packed(operation: str, dtype: str, elements: int) -> int:
    """A collective as the ``extra`` of its black-box record, above the group's eight bits; 0 if it does not fit."""
    if elements >= 1 << 39:
        return 0
    kind = DTYPES.index(dtype) + 1 if dtype in DTYPES else 0
    return (OPERATIONS.index(operation) + 1) << 8 | kind << 16 | elements << 24


def parts(extra: int) -> tuple[str, str, int] | None:
    """Operation, type and number of elements; None if there are none."""
    operation, kind, elements = extra >> 8 & 0xFF, extra >> 16 & 0xFF, extra >> 24
    if not 0 < operation <= len(OPERATIONS):
        return None
    return OPERATIONS[operation - 1], DTYPES[kind - 1] if 0 < kind <= len(DTYPES) else "", elements


def unpacked(extra: int) -> str:
    """A description of it; empty if there is none."""
    found = parts(extra)
    if found is None:
        return ""
    operation, dtype, elements = found
    return f"{operation} {dtype}, {elements} element{'s' if elements != 1 else ''}" if dtype else operation


def place(file: int, line: int) -> int:
    """A line of a file as the ``spare`` of a record."""
    return file << LINE_BITS | line if line < 1 << LINE_BITS and file < MOST_FILES else 0


def placed(spare: int) -> tuple[int, int]:
    """The number of the file, and the line."""
    return spare >> LINE_BITS, spare & (1 << LINE_BITS) - 1


def key(operation: str, dtype: str = "", elements: int = 0) -> str:
    """What must be the same on every rank, as the guard, its black box or torch's flight recorder recorded it."""
    operation = OBJECTS.get(operation, operation)
    base = "_".join(
        operation.strip("_")
        .removesuffix("_base")
        .removesuffix("_into_tensor")
        .removesuffix("_tensor")
        .removesuffix("_single")
        .split()
    )
    base = {"allgather": "all_gather", "allreduce": "all_reduce", "alltoall": "all_to_all"}.get(base, base)
    if base in SIZED:
        return f"{base} {dtype}x{elements}"
    if base in BYTES:
        return f"{base} {elements * BITS.get(dtype, 32) // 8} bytes" if dtype else base
    return base


def mismatch(trails: Mapping[int, Sequence[TrailEntry]], group: str = "", alike: int = ALIKE) -> Mismatch | None:
    """The first number under which ranks issued different things, with all before it the same; None: there is none."""
    by_number: dict[int, dict[int, TrailEntry]] = {}
    for rank, trail in trails.items():
        for each in trail:
            by_number.setdefault(each.sequence, {})[rank] = each
    shared = [number for number in sorted(by_number) if len(by_number[number]) > 1]
    for at, number in enumerate(shared):
        issued = by_number[number]
        if len({each.key for each in issued.values()}) < 2:
            continue
        if at < min(alike, number - 1):
            return None  # they count differently, or too little is left
        history = [next(iter(by_number[n].values())) for n in shared[:at]]
        values = values_by_rank({rank: each.words for rank, each in issued.items()})
        places = tuple((rank, each.line) for rank, each in sorted(issued.items()) if each.line)
        return Mismatch(number, _what(issued), values, group, odd(issued, history), places)
    return None


def odd(issued: Mapping[int, TrailEntry], history: Sequence[TrailEntry]) -> tuple[int, ...]:
    """Which ranks deviated: by what followed the same collectives before, by majority, or as the script's own."""
    known = {(each.key, each.line) for each in history if each.line}
    repeated = [rank for rank, each in issued.items() if each.line and (each.key, each.line) in known]
    expected = None if repeated else _expected([each.key for each in history], {each.key for each in issued.values()})
    if expected is not None:
        return tuple(sorted(rank for rank, each in issued.items() if each.key != expected))
    values = values_by_rank({rank: each.key for rank, each in issued.items()})
    if len(values[0][1]) > len(values[1][1]):
        return tuple(sorted(rank for _, ranks in values[1:] for rank in ranks))
    own = tuple(sorted(rank for rank, each in issued.items() if each.line))
    return own if not repeated and 0 < len(own) < len(issued) else ()


def _expected(history: Sequence[str], candidates: set[str]) -> str | None:
    """What followed the last few collectives the last time they came in this order."""
    for length in range(min(len(history) - 1, LONGEST_CONTEXT), 0, -1):
        context = history[-length:]
        for end in range(len(history) - 1, length - 1, -1):
            if history[end - length : end] == context and history[end] in candidates:
                return history[end]
    return None


def _what(issued: Mapping[int, TrailEntry]) -> str:
    if len({each.words.split(" ", 1)[0] for each in issued.values()}) > 1:
        return "operation"
    types = {each.words.partition(" ")[2].partition("[")[0].partition(",")[0] for each in issued.values()}
    return "dtype" if len(types) > 1 else "size"


def values_by_rank(by_rank: Mapping[int, str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found: dict[str, list[int]] = {}
    for rank in sorted(by_rank):
        found.setdefault(by_rank[rank], []).append(rank)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[1][0]))
    return tuple((value, tuple(ranks)) for value, ranks in ordered)
