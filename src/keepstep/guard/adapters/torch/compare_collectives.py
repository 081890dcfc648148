# SPDX-License-Identifier: Apache-2.0
"""Compares what the ranks of a group say about their collectives. Pure: only what is proven is a mismatch.

A rank that is merely slow has issued fewer than the others; a rank that has issued another one is out of step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from keepstep.signals import collective_history as trails
from keepstep.signals.collective_history import Mismatch, TrailEntry, values_by_rank

BACKWARD = "backward"
FORWARD = "forward"
COLLECTIVE = "collective"
BELOW = {BACKWARD: "gradients of loss.backward()", FORWARD: "the broadcast of DDP's buffers in forward()"}
"""What DDP issues, which no Python function shows."""
WAITS = (COLLECTIVE, BACKWARD, FORWARD)
DECIDED_AFTER_S = 0.7


@dataclass(frozen=True)
class Op:
    """A collective that the script issued."""

    number: int
    """Its number among the script's own on the group."""
    sequence: int
    """Its number in the group."""
    key: str
    words: str
    running: bool = False
    failed: bool = False


@dataclass(frozen=True)
class RankWord:
    """What one rank says about itself."""

    still_s: float = 0.0
    """How long it has neither issued a collective nor finished a step."""
    idle: bool = False
    """Its training thread did not compute meanwhile."""
    steps: int = 0
    phase: int = 0
    doing: str = ""
    """``collective``, ``backward``, ``forward``, ``input`` or what else its stack shows."""
    line: str = ""
    sequences: Mapping[str, int] = field(default_factory=dict)
    ops: Mapping[str, tuple[Op, ...]] = field(default_factory=dict)
    ends: tuple[tuple[int, int], ...] = ()
    batches: int | None = None
    turns: int = 0
    """How many batches it was handed."""
    trails: Mapping[str, tuple[TrailEntry, ...]] = field(default_factory=dict)
    """By group, every collective that torch's flight recorder holds; empty where there is none."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> RankWord:
        ops = {group: tuple(Op(**each) for each in many) for group, many in found.pop("ops", {}).items()}
        ends = tuple((int(step), int(number)) for step, number in found.pop("ends", ()))
        issued = {group: tuple(TrailEntry(*each) for each in many) for group, many in found.pop("trails", {}).items()}
        return cls(ops=ops, ends=ends, trails=issued, **found)


def mismatch(
    words: Mapping[int, RankWord], group: str, members: tuple[int, ...], default: bool = True
) -> Mismatch | None:
    """The first proven mismatch among the members that have reported; None: there is none, or it is not proven."""
    spoken = {rank: words[rank] for rank in members if rank in words}
    if len(spoken) < 2:
        return None
    found = _by_trails(spoken, group)
    if found is not None:
        return None if _undecided(found, spoken, members) else found
    found = _other_operation(spoken, group) or _python_against_below(spoken, group)
    return found or (_other_counts(spoken, group) if default else None)


def _by_trails(words: Mapping[int, RankWord], group: str) -> Mismatch | None:
    """By torch's own record of all that was issued. A rank that is in the collective in question says where."""
    found = trails.mismatch({rank: word.trails[group] for rank, word in words.items() if group in word.trails}, group)
    if found is None:
        return None
    places = dict(found.places)
    for _, ranks in found.values:
        for rank in ranks:
            word = words[rank]
            if rank not in places and word.sequences.get(group, 0) >= found.sequence and word.doing in BELOW:
                places[rank] = f"{word.line}, {BELOW[word.doing]}"
    return replace(found, places=tuple(sorted(places.items())))


def _undecided(found: Mismatch, words: Mapping[int, RankWord], members: tuple[int, ...]) -> bool:
    """Whether a rank that has not said its side yet may decide who deviated. It is not waited for long."""
    told = [rank for _, ranks in found.values for rank in ranks]
    if found.odd or len(told) == len(members):
        return False
    return min(words[rank].still_s for rank in told) < DECIDED_AFTER_S


def _other_operation(words: Mapping[int, RankWord], group: str) -> Mismatch | None:
    """The same number, equally far behind the one before, but another operation, type or size.

    Both counts must agree: messages between two ranks raise the group's count, and compiled code issues collectives
    that the script's count does not see.
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
            return Mismatch(sequence, _what(ops), values_by_rank({rank: op.words for rank, op in ops.items()}), group)
    return None


def _what(ops: Mapping[int, Op]) -> str:
    names = {op.words.split(" ", 1)[0] for op in ops.values()}
    if len(names) > 1:
        return "operation"
    types = {op.words.partition(" ")[2].partition("[")[0] for op in ops.values()}
    if len(types) > 1:
        return "dtype"
    return "shape" if len({op.words.partition("[")[2].partition("]")[0] for op in ops.values()}) > 1 else "reduction"


def _python_against_below(words: Mapping[int, RankWord], group: str) -> Mismatch | None:
    """A rank waits in the script's collective whose number, on other ranks, belongs to one of DDP's own."""
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
            and word.doing in BELOW
            and word.idle
            and word.still_s > 0.25
            and word.sequences.get(group, 0) >= op.sequence
            and _last_before(word, group, op.number + 1) == before
        ]
        if below:
            alike = {other: each.words for other, each in waiting.items() if each.sequence == op.sequence}
            values = values_by_rank(alike | {other: BELOW[words[other].doing] for other in below})
            places = tuple((each, words[each].line) for each in sorted((*alike, *below)) if words[each].line)
            return Mismatch(op.sequence, "operation", values, group, tuple(sorted(alike)), places)
    return None


def _last_before(word: RankWord, group: str, number: int) -> tuple[int, int] | None:
    """The script's last collective before the one of that number, by both counts."""
    earlier = [(op.number, op.sequence) for op in word.ops.get(group, ()) if op.number < number]
    return max(earlier) if earlier else (0, 0) if number == 1 or not word.ops.get(group) else None


def _other_counts(words: Mapping[int, RankWord], group: str) -> Mismatch | None:
    """Equal counts at the end of one step but not of a later one, while no rank makes progress."""
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
            values = values_by_rank({rank: str(number) for rank, number in counts.items()})
            return Mismatch(max(counts.values()), f"collectives issued by the end of step {step}", values, group)
    return None
