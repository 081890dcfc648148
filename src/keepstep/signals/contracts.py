# SPDX-License-Identifier: Apache-2.0
"""Contracts between ranks: what each states about the same thing, and where they differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Stated = Mapping[str, str]
"""What one rank states: what it is about, and its value, in words."""


class Subject:
    """What contracts are about: the first word of every subject (``program train_step``, ``batch``), used by rules."""

    PROGRAM = "program"
    """A compiled program or traced function, with its collectives. Certain."""
    VARIABLES = "variables"
    """The variables that a strategy creates. Certain."""
    MODEL = "model"
    """Parameters and buffers, and how they are wrapped. Certain."""
    COLLECTIVE = "collective"
    """A single collective that ranks are in or have issued. Certain."""
    BATCH = "batch"
    """Structure, dtypes, shapes and rows of a batch. Only reported."""
    BATCHES = "batches"
    """How many batches an epoch has. Only reported."""
    OPTIMIZER = "optimizer"
    VERSIONS = "versions"
    OPTIONS = "options"
    """Communication backend and options."""


ABSENT = "(none)"
UNKNOWN = "?"
"""An unknown value differs from no other. A rank that states ``{UNKNOWN: UNKNOWN}`` knows nothing at all."""
REMARK = " named "
"""What follows it in a value is shown but not compared: ranks may give the same thing different names."""
WHERE = "at line"
"""A rank's own line of code, stated beside the rest: shown where ranks differ, never compared."""
KEPT = "as before"
"""Stated by a rank that does what all ranks had agreed on before: of two sides, the other is new. Never compared."""
MOST_DIFFERENCES = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing on which ranks differ: every value with the ranks that stated it, the most common first."""

    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    kept: bool = False
    """Whether the first value is what all had agreed on before."""

    @property
    def usual(self) -> tuple[str, tuple[int, ...]]:
        return self.values[0]

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks outside the majority; all of them if there is none."""
        if len(self.values[0][1]) > len(self.values[1][1]) or self.kept:
            return tuple(sorted(rank for _, ranks in self.values[1:] for rank in ranks))
        return tuple(sorted(rank for _, ranks in self.values for rank in ranks))

    def __str__(self) -> str:
        parts = (f"{value} on {_ranks(ranks)}" for value, ranks in self.values[:4])
        return f"{self.what}: {' but '.join(parts)}"


def differences(stated: Mapping[int, Stated]) -> tuple[Difference, ...]:
    """Where the ranks differ, in the order in which the first rank states things."""
    stated = {rank: side for rank, side in stated.items() if UNKNOWN not in side}
    names = dict.fromkeys(name for rank in sorted(stated) for name in stated[rank] if name not in (WHERE, KEPT))
    kept = {rank for rank, side in stated.items() if KEPT in side}
    found = []
    for name in names:
        values: dict[str, list[int]] = {}
        words: dict[str, str] = {}
        for rank in sorted(stated):
            value = stated[rank].get(name, ABSENT)
            compared = value.partition(REMARK)[0]
            if compared == UNKNOWN:
                continue
            values.setdefault(words.setdefault(compared, value), []).append(rank)
        if len(values) > 1:
            ordered = sorted(values.items(), key=lambda item: (-len(item[1]), kept.isdisjoint(item[1]), item[1][0]))
            first = not kept.isdisjoint(ordered[0][1]) and all(kept.isdisjoint(ranks) for _, ranks in ordered[1:])
            found.append(Difference(name, tuple((value, tuple(ranks)) for value, ranks in ordered), first))
        if len(found) == MOST_DIFFERENCES:
            break
    return tuple(found)


def lines(stated: Mapping[int, Stated], found: tuple[Difference, ...]) -> dict[int, str]:
    """The code lines of the deviating ranks, if they stated theirs."""
    odd = sorted({rank for each in found for rank in each.odd})
    return {rank: stated[rank][WHERE] for rank in odd if WHERE in stated.get(rank, {})}


def shortfall(found: Difference) -> str | None:
    """``rank 3 has 12 batches fewer (5,879 of 5,891): the other ranks will wait at batch 5,880 ...``.

    None if a number is not known.
    """
    if not all(value.isdecimal() for value, _ in found.values):
        return None
    most, least = max(int(value) for value, _ in found.values), min(int(value) for value, _ in found.values)
    ranks = next(ranks for value, ranks in found.values if int(value) == least)
    fewer, verb = f"{most - least:,} batch{'es' if most - least > 1 else ''} fewer", "have" if len(ranks) > 1 else "has"
    share = f"{least:,} of {most:,}" if least else "none at all"
    hang = f"the other ranks will wait at batch {least + 1:,} of the epoch, unless all stop before"
    return f"{_ranks(ranks)} {verb} {fewer} ({share}): {hang}"


def say_lines(where: Mapping[int, str]) -> str:
    """``; rank 1 at train.py:50``, to append to a difference; empty if no line is known."""
    told = ", ".join(f"rank {rank} at {line}" for rank, line in list(where.items())[:4])
    return f"; {told}" if told else ""


def _ranks(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ranks[:6])) + (", ..." if len(ranks) > 6 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
