# SPDX-License-Identifier: Apache-2.0
"""The ways of two ranks through a function, and where they part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from keepstep.parse.code.unit import UNKNOWN, Test

COMPILED = "compiled"
"""The kind of what a compiler made for all devices."""


@dataclass(frozen=True)
class Condition:
    """A branch on which ranks differ, or a loop of which they make different numbers of turns."""

    function: str
    line: int
    text: str
    test: Test = field(default=UNKNOWN, compare=False)


@dataclass(frozen=True)
class Issued:
    """A collective on the way through a function."""

    name: str
    kind: str
    line: int
    """In the function that is looked at: of the collective, or of the call that leads to it."""
    path: tuple[tuple[str, int], ...] = ()
    """The functions on the way, each with the line in it."""
    under: Condition | None = None


@dataclass(frozen=True)
class Optional:
    """Two sides of which either may be taken, by all ranks alike; a loop has one."""

    sides: tuple[Trace, Trace]
    is_loop: bool = False
    is_private: bool = False
    """Callers do not count on it: it is done once at most for each object, or in a loop that never ends."""

    _signature: tuple[Any, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def signature(self) -> tuple[Any, ...]:
        """That of both sides. It is asked for often, so it is kept."""
        if self._signature is None:
            object.__setattr__(self, "_signature", (signature(self.sides[0]), signature(self.sides[1])))
        return self._signature or ()


@dataclass(frozen=True)
class Left:
    """The end of a path: ``return``, ``break``, ``continue`` or ``exit``."""

    how: str
    line: int
    under: Condition | None = None
    loop: tuple[int, int] | None = None
    """The first and last line of the loop that it stands in."""

    def misses(self, issued: Issued) -> bool:
        """Whether whoever leaves here does not come to a collective: ``break`` and ``continue`` leave a loop only."""
        if self.how in ("break", "continue") and self.loop is not None:
            first, last = self.loop
            return (first if self.how == "break" else self.line) < issued.line <= last
        return issued.line > self.line


Item = Issued | Optional | Left
Trace = tuple[Item, ...]


@dataclass(frozen=True)
class Divergence:
    """Where ranks differ, within one function."""

    issued: Issued
    how: str
    condition: Condition
    left: Left | None = None
    instead: Issued | None = None


def signature(trace: Trace) -> tuple[Any, ...]:
    """What must be the same on every rank."""
    found: list[Any] = []
    for each in trace:
        if isinstance(each, Issued):
            found.append(each.name)
        elif isinstance(each, Optional):
            if any(each.signature):
                found.append(each.signature)
        elif each.under is not None:
            found.append(each.how)
    return tuple(found)


def differences(first: Trace, another: Trace, function: str) -> list[Divergence]:
    """Where two ranks leave each other; what lies in other functions is reported there.

    Compiled programs are looked at only where the ranks agree about everything else.
    """
    if not any(each.kind == COMPILED for trace in (first, another) for each in issued_in(trace)):
        return list(_differences(first, another, function))
    found = list(_differences(without_compiled(first), without_compiled(another), function))
    return found or [each for each in _differences(first, another, function) if each.issued.kind == COMPILED]


def without_compiled(trace: Trace) -> Trace:
    """What is left if a compiled program is no collective."""
    kept: list[Item] = []
    for each in trace:
        if isinstance(each, Optional):
            kept += optional(without_compiled(each.sides[0]), without_compiled(each.sides[1]), each.is_loop)
        elif not isinstance(each, Issued) or each.kind != COMPILED:
            kept.append(each)
    return tuple(kept)


def foremost(trace: Trace) -> Issued | None:
    """The first collective of a trace, or else the first compiled program."""
    found = list(issued_in(trace))
    return next((each for each in found if each.kind != COMPILED), found[0] if found else None)


def _differences(first: Trace, another: Trace, function: str) -> Iterator[Divergence]:
    """By the names of collectives, which is all that counts; where they do not say which is too many, by place."""
    mine, theirs = _parts(first), _parts(another)
    for key in (_by_name, _by_place):
        matcher = SequenceMatcher(None, [key(each) for each in mine], [key(each) for each in theirs], autojunk=False)
        parted = [each[1:] for each in matcher.get_opcodes() if each[0] != "equal"]
        for start, end, other_start, other_end in parted:
            ours = [each for _, item in mine[start:end] for each in issued_in((item,))]
            others = [each for _, item in theirs[other_start:other_end] for each in issued_in((item,))]
            found = _explained(ours, others, (first, another), function)
            if found is not None:
                yield found
                return
        if not parted:
            return


def _by_name(part: tuple[Any, Item]) -> Any:
    return part[0]


def _by_place(part: tuple[Any, Item]) -> Any:
    """Both sides of one branch are one place."""
    key, item = part
    if not isinstance(item, Issued):
        return key
    return key, item.line if item.under is None else item.under


def _explained(
    ours: list[Issued], others: list[Issued], traces: tuple[Trace, Trace], function: str
) -> Divergence | None:
    under_ours = next((each for each in ours if each.under and each.under.function == function), None)
    under_others = next((each for each in others if each.under and each.under.function == function), None)
    if under_ours and under_others and under_ours.under and under_others.under:
        is_one_branch = under_ours.under.line == under_others.under.line
        if is_one_branch and under_ours.name != under_others.name:
            return Divergence(under_ours, "sides", under_ours.under, instead=under_others)
    found = under_ours or under_others
    if found is not None and found.under is not None:
        other = traces[1] if found is under_ours else traces[0]
        instead = _instead(found.under, other, traces[0] if found is under_ours else traces[1])
        return Divergence(found, "sides" if instead else "branch", found.under, instead=instead)
    return _left_early(traces, function)


def _instead(condition: Condition, other: Trace, mine: Trace) -> Issued | None:
    """What the other side of a branch issues: in its ``else``, or after it if this side returns."""
    here = {each.line for each in issued_in(mine) if each.under == condition}
    theirs = next((each for each in issued_in(other) if each.under == condition and each.line not in here), None)
    if theirs is not None:
        return theirs
    returns = any(left.under == condition and left.how == "return" for left in lefts(mine))
    after = (each for each in surely_issued(other) if each.under is None and each.line > condition.line)
    return next(after, None) if returns else None


def _left_early(traces: tuple[Trace, Trace], function: str) -> Divergence | None:
    """Some ranks leave, and the others go on to a collective.

    Where more than the rank decides whether they leave, the collective must be sure to come: it may well stand under
    the same condition.
    """
    for mine, theirs in (traces, traces[::-1]):
        for left, is_sure in _ways_out(mine):
            if left.under is None or left.under.function != function:
                continue
            coming = issued_in(theirs) if is_sure else surely_issued(theirs)
            missed = next((each for each in coming if left.misses(each)), None)
            if missed is not None:
                return Divergence(missed, "exit", left.under, left=left)
    return None


def _ways_out(trace: Trace, is_sure: bool = True) -> Iterator[tuple[Left, bool]]:
    for each in trace:
        if isinstance(each, Left):
            yield each, is_sure
        elif isinstance(each, Optional):
            for side in each.sides:
                yield from _ways_out(side, is_sure and each.is_loop)


def surely_issued(trace: Trace) -> Iterator[Issued]:
    """The collectives that no condition can keep away."""
    for each in trace:
        if isinstance(each, Issued):
            yield each
        elif isinstance(each, Optional) and each.is_loop:
            yield from surely_issued(each.sides[0])


def issued_in(trace: Trace) -> Iterator[Issued]:
    """Every collective of a trace."""
    for each in trace:
        if isinstance(each, Issued):
            yield each
        elif isinstance(each, Optional):
            yield from issued_in(each.sides[0])
            yield from issued_in(each.sides[1])


def lefts(trace: Trace) -> Iterator[Left]:
    for each in trace:
        if isinstance(each, Left):
            yield each
        elif isinstance(each, Optional):
            yield from lefts(each.sides[0])
            yield from lefts(each.sides[1])


def _parts(trace: Trace) -> list[tuple[Any, Item]]:
    return [(key, each) for each in trace if (key := signature((each,)))]


def optional(first: Trace, second: Trace, is_loop: bool = False, is_private: bool = False) -> Trace:
    sides = (first, second)
    if signature(sides[0]) == signature(sides[1]) and not any(lefts(sides[0])) and not any(lefts(sides[1])):
        return sides[0]
    return (Optional(sides, is_loop, is_private),)
