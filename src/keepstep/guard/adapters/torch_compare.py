# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a group tell of their collectives, compared. Pure: only what is proven is a mismatch.

A rank that is merely slow has issued fewer than the others; a rank that has issued another one is out of step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

BACKWARD = "backward"
COLLECTIVE = "collective"
BELOW = "gradients of loss.backward()"
"""What DDP issues, which no Python function shows."""


@dataclass(frozen=True)
class Op:
    """A collective that the script issued."""

    number: int
    """The how-manieth of the script's own on the group."""
    sequence: int
    """The group's number of it."""
    key: str
    words: str
    running: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Word:
    """What one rank tells of itself."""

    still_s: float = 0.0
    """How long it has neither issued a collective nor ended a step."""
    idle: bool = False
    """Its training thread did not compute meanwhile."""
    steps: int = 0
    phase: int = 0
    doing: str = ""
    """``collective``, ``backward``, ``input`` or what else its stack shows."""
    line: str = ""
    sequences: Mapping[str, int] = field(default_factory=dict)
    ops: Mapping[str, tuple[Op, ...]] = field(default_factory=dict)
    ends: tuple[tuple[int, int], ...] = ()
    batches: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Word:
        ops = {group: tuple(Op(**each) for each in many) for group, many in found.pop("ops", {}).items()}
        ends = tuple((int(step), int(number)) for step, number in found.pop("ends", ()))
        return cls(ops=ops, ends=ends, **found)


@dataclass(frozen=True)
class Mismatch:
    """The first collective that ranks did not issue alike."""

    sequence: int
    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    """Each value with its ranks, the commonest first."""
    group: str = ""

    def __str__(self) -> str:
        parts = [f"{value} on rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:8]))}" for value, ranks in self.values]
        return f"{self.what}: {' but '.join(parts)}"


def mismatch(words: Mapping[int, Word], group: str, members: tuple[int, ...], default: bool = True) -> Mismatch | None:
    """The first proven mismatch among the members who have spoken; None: there is none, or it is not proven."""
    spoken = {rank: words[rank] for rank in members if rank in words}
    if len(spoken) < 2:
        return None
    found = _other_operation(spoken, group) or _python_against_backward(spoken, group)
    return found or (_other_counts(spoken, group) if default else None)


def _other_operation(words: Mapping[int, Word], group: str) -> Mismatch | None:
    """The same number, as far behind the one before, and another operation, type or size.

    Both counts must agree: messages between two ranks raise the group's count, compiled code issues what the script's
    count does not see.
    """
    issued: dict[tuple[int, int], dict[int, Op]] = {}
    for rank, word in words.items():
        before: Op | None = None
        for op in word.ops.get(group, ()):
            if before is not None or op.number == 1:
                issued.setdefault((op.number, op.sequence - (before.sequence if before else 0)), {})[rank] = op
            before = op
    for _, ops in sorted(issued.items()):
        failed = any(op.failed for op in ops.values())
        if len({op.key for op in ops.values()}) > 1 or (failed and len({op.words for op in ops.values()}) > 1):
            sequence = max(op.sequence for op in ops.values())
            return Mismatch(sequence, _what(ops), _values({rank: op.words for rank, op in ops.items()}), group)
    return None


def _what(ops: Mapping[int, Op]) -> str:
    names = {op.words.split(" ", 1)[0] for op in ops.values()}
    if len(names) > 1:
        return "operation"
    types = {op.words.partition(" ")[2].partition("[")[0] for op in ops.values()}
    if len(types) > 1:
        return "dtype"
    return "shape" if len({op.words.partition("[")[2].partition("]")[0] for op in ops.values()}) > 1 else "reduction"


def _python_against_backward(words: Mapping[int, Word], group: str) -> Mismatch | None:
    """A rank waits in a collective of the script whose number, on others, belongs to the gradients of a backward pass."""
    waiting = {
        rank: op
        for rank, word in words.items()
        if word.doing == COLLECTIVE and word.idle and word.still_s > 0.25
        for op in word.ops.get(group, ())[-1:]
        if op.running
    }
    for rank, op in waiting.items():
        before = _last_before(words[rank], group, op.number)
        below = [
            other
            for other, word in words.items()
            if other != rank
            and word.doing == BACKWARD
            and word.idle
            and word.still_s > 0.25
            and word.sequences.get(group, 0) >= op.sequence
            and _last_before(word, group, op.number + 1) == before
        ]
        if below:
            alike = {other: each.words for other, each in waiting.items() if each.sequence == op.sequence}
            return Mismatch(op.sequence, "operation", _values(alike | dict.fromkeys(below, BELOW)), group)
    return None


def _last_before(word: Word, group: str, number: int) -> tuple[int, int] | None:
    """The script's last collective before the one of that number, by both counts."""
    earlier = [(op.number, op.sequence) for op in word.ops.get(group, ()) if op.number < number]
    return max(earlier) if earlier else (0, 0) if number == 1 or not word.ops.get(group) else None


def _other_counts(words: Mapping[int, Word], group: str) -> Mismatch | None:
    """As many by the end of one step, and not by the end of a later one; all of them stand still."""
    if not all(word.idle and word.still_s > 0.25 for word in words.values()):
        return None
    ends = {rank: dict(word.ends) for rank, word in words.items()}
    common = sorted(set.intersection(*(set(each) for each in ends.values())))
    alike = [step for step in common if len({each[step] for each in ends.values()}) == 1]
    if not alike:
        return None
    for step in common:
        if step > alike[0] and len({each[step] for each in ends.values()}) > 1:
            counts = {rank: each[step] for rank, each in ends.items()}
            values = _values({rank: str(number) for rank, number in counts.items()})
            return Mismatch(max(counts.values()), f"collectives issued by the end of step {step}", values, group)
    return None


def _values(by_rank: Mapping[int, str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found: dict[str, list[int]] = {}
    for rank in sorted(by_rank):
        found.setdefault(by_rank[rank], []).append(rank)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[1][0]))
    return tuple((value, tuple(ranks)) for value, ranks in ordered)
