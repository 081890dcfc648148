# SPDX-License-Identifier: Apache-2.0
"""The collectives that each function issues, in order, on the first rank and on another one; and where they differ.

What does not depend on the rank is the same for both, so it is kept as a branch of which either side may be taken. Two
ranks that issue the same sequence are in step, however the program is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from keepstep.check.code.project import Project, compared, of_its_name
from keepstep.parse.code.unit import FunctionSeen, Skeleton, Test
from keepstep.parse.code.vocabulary import COLLECTIVES, MAIN_DECORATORS

FIRST, ANOTHER = 0, 1
MOST_CALLERS = 4
DEEPEST = 12
"""Calls within calls."""
LONGEST = 400
Bound = tuple[tuple[int | str, Test], ...]


@dataclass(frozen=True)
class Condition:
    """A branch on which ranks differ, or a loop of which they make different numbers of turns."""

    function: str
    line: int
    text: str


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


@dataclass(frozen=True)
class Left:
    """The end of a path: ``return``, ``break``, ``continue`` or ``exit``."""

    how: str
    line: int
    under: Condition | None = None


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


@dataclass
class Tracer:
    """Follows the functions of a project."""

    project: Project
    _memory: dict[tuple[str, int, Bound], Trace] = field(default_factory=dict)
    _local: dict[str, list[Divergence]] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _given: dict[str, set[Bound]] = field(default_factory=dict)
    """By function: what its callers give it, where that says something."""

    def divergences(self) -> Iterator[tuple[FunctionSeen, Divergence]]:
        """All differences, each in the function in which it begins."""
        functions = [each for each in self.project.functions.values() if each.skeleton]
        for function in functions:
            self.trace(function, FIRST, ())
        for function in functions:
            for found in self._differing(function):
                yield function, found

    def _differing(self, function: FunctionSeen) -> list[Divergence]:
        found: list[Divergence] = []
        for bound in sorted(self._given.get(function.name, {()}), key=str)[:MOST_CALLERS]:
            self._memory.pop((function.name, FIRST, bound), None)
            self._local[function.name] = []
            first = self.trace(function, FIRST, bound)
            another = self.trace(function, ANOTHER, bound)
            found += [*self._local.pop(function.name), *differences(first, another, function.name)]
            found += _all_of_it(function, first)
        return list({(each.issued.line, each.how, each.condition.line): each for each in found}.values())

    def trace(self, function: FunctionSeen, world: int, bound: Bound) -> Trace:
        key = (function.name, world, bound)
        if key not in self._memory:
            if function.name in self._open or len(self._open) > DEEPEST:
                return ()
            self._open.add(function.name)
            try:
                made = self._follow(function.skeleton, Place(function, world, dict(bound)), None)
            finally:
                self._open.discard(function.name)
            self._memory[key] = made[:LONGEST]
        return self._memory[key]

    def _follow(self, skeleton: Skeleton, place: Place, under: Condition | None) -> Trace:
        found: list[Item] = []
        for item in skeleton:
            found += self._item(item, place, under)
            if found and isinstance(found[-1], Left):
                break
            if len(found) > LONGEST:
                break
        return tuple(found)

    def _item(self, item: tuple[Any, ...], place: Place, under: Condition | None) -> Trace:
        what = item[0]
        if what == "c":
            _, name, kind, line, over_a_group = item
            return () if over_a_group else (Issued(name, kind, line, (), under),)
        if what == "call":
            return self._called(item, place, under)
        if what == "on":
            return self._on_argument(item, place, under)
        if what == "exit":
            return () if item[1] == "raise" else (Left(item[1], item[2], under),)
        if what == "if":
            return self._branch(item, place, under)
        if what == "loop":
            return self._loop(item, place, under)
        return self._follow(item[1], place, under)  # what is tried

    def _called(self, item: tuple[Any, ...], place: Place, under: Condition | None) -> Trace:
        _, name, line, given = item
        module = self.project.module_of(place.function)
        callee = self.project.function(name, module)
        if callee is None:
            method = self.project.of_result(name, module)
            return (Issued(method, COLLECTIVES[method], line, (), under),) if method in COLLECTIVES else ()
        names = callee.parameters
        bound = dict(callee.defaults) | {names.index(at) if at in names else at: test for at, test in given}
        told = tuple(sorted(((at, test) for at, test in bound.items() if test[0] == "made"), key=str))
        self._given.setdefault(callee.name, set()).add(told)
        # where the callee differs in itself, that is reported there: so it is followed for one rank only
        trace = self.trace(callee, FIRST, tuple(sorted(bound.items(), key=str)))
        return tuple(_seen_from(each, callee.name, line, under) for each in trace if not isinstance(each, Left))

    def _on_argument(self, item: tuple[Any, ...], place: Place, under: Condition | None) -> Trace:
        _, parameter, method, line = item
        given = place.bound.get(parameter)
        if given is None or given[0] != "made":
            return ()
        name = f"{given[1]}.{method}"
        if name in COLLECTIVES:
            return (Issued(name, COLLECTIVES[name], line, (), under),)
        return self._called(("call", name, line, ()), place, under)

    def _branch(self, item: tuple[Any, ...], place: Place, under: Condition | None) -> Trace:
        _, line, text, test, then, otherwise = item
        holds = self.holds(test, place)
        if _raises(then) or _raises(otherwise):
            # a path that ends with an exception is not one on which the run goes on
            return self._follow(otherwise if _raises(then) else then, place, under)
        condition = Condition(place.function.name, line, text)
        if holds == "split":  # nobody knows which ranks: one takes this side, the other one that
            return self._follow(otherwise if place.world else then, place, condition)
        if holds is None:
            elsewhere = self.holds(test, replace(place, world=1 - place.world))
            inner = under if elsewhere is None else condition
            return _optional(self._follow(then, place, inner), self._follow(otherwise, place, under))
        differs = self.holds(test, replace(place, world=1 - place.world)) is not holds
        return self._follow(then if holds else otherwise, place, condition if differs else under)

    def _loop(self, item: tuple[Any, ...], place: Place, under: Condition | None) -> Trace:
        _, line, text, test, body = item
        holds = self.holds(test, place)
        if holds == "split" or (holds is not None and self.holds(test, replace(place, world=1 - place.world)) != holds):
            condition = Condition(place.function.name, line, text)
            inside = next(issued_in(self._follow(body, place, condition)), None)
            if inside is not None and place.function.name in self._local and place.world == FIRST:
                self._local[place.function.name].append(Divergence(inside, "loop", condition))
            return ()
        return _optional(self._follow(body, place, under), (), is_loop=True)

    def holds(self, test: Test, place: Place) -> bool | str | None:
        """Whether a condition holds in a world; None: that does not depend on it; ``split``: on some ranks."""
        what = test[0]
        if what == "=":
            return bool(test[1 + place.world])
        if what == "some":
            return "split"
        if what == "not":
            inner = self.holds(test[1], place)
            return not inner if isinstance(inner, bool) else inner
        if what == "call":
            returned = self.project.returned(test[1], self.project.module_of(place.function))
            return None if returned is None else self.holds(compared(returned, test[2], test[3]), place)
        if what == "param":
            value = place.bound.get(test[1]) or of_its_name(test[1], place.function.parameters)
            return None if value is None or value[0] == "made" else self.holds(compared(value, test[2], test[3]), place)
        if what in ("and", "or"):
            inner = [self.holds(each, place) for each in test[1]]
            decides = what == "or"
            if any(each is decides for each in inner):
                return decides
            if "split" in inner:
                return "split"
            return None if None in inner else not decides
        return None


@dataclass(frozen=True)
class Place:
    """The function that is followed, for which rank, with which arguments that differ by rank."""

    function: FunctionSeen
    world: int
    bound: dict[int | str, Test]


def signature(trace: Trace) -> tuple[Any, ...]:
    """What must be the same on every rank."""
    found: list[Any] = []
    for each in trace:
        if isinstance(each, Issued):
            found.append(each.name)
        elif isinstance(each, Optional):
            sides = (signature(each.sides[0]), signature(each.sides[1]))
            if any(sides):
                found.append(sides)
        elif each.under is not None:
            found.append(each.how)
    return tuple(found)


def differences(first: Trace, another: Trace, function: str) -> Iterator[Divergence]:
    """Where two ranks leave each other; what lies in other functions is reported there."""
    mine, theirs = _parts(first), _parts(another)
    matcher = SequenceMatcher(None, [key for key, _ in mine], [key for key, _ in theirs], autojunk=False)
    for how, start, end, other_start, other_end in matcher.get_opcodes():
        if how == "equal":
            continue
        ours = [each for _, item in mine[start:end] for each in issued_in((item,))]
        others = [each for _, item in theirs[other_start:other_end] for each in issued_in((item,))]
        found = _explained(ours, others, (first, another), function)
        if found is not None:
            yield found
            return


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
        return Divergence(found, "branch", found.under)
    return _left_early(traces, function)


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
            missed = next((each for each in coming if each.line > left.line or left.how == "break"), None)
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


def _all_of_it(function: FunctionSeen, trace: Trace) -> list[Divergence]:
    """Where a decorator lets only the first rank run the function."""
    for decorator in function.decorators:
        name = decorator.rpartition(".")[2]
        inside = next(issued_in(trace), None) if name in MAIN_DECORATORS else None
        if inside is not None:
            return [Divergence(inside, "branch", Condition(function.name, function.line, f"@{name}"))]
    return []


def issued_in(trace: Trace) -> Iterator[Issued]:
    """Every collective of a trace."""
    for each in trace:
        if isinstance(each, Issued):
            yield each
        elif isinstance(each, Optional):
            yield from issued_in(each.sides[0])
            yield from issued_in(each.sides[1])


def _lefts(trace: Trace) -> Iterator[Left]:
    for each in trace:
        if isinstance(each, Left):
            yield each
        elif isinstance(each, Optional):
            yield from _lefts(each.sides[0])
            yield from _lefts(each.sides[1])


def _parts(trace: Trace) -> list[tuple[Any, Item]]:
    return [(key, each) for each in trace if (key := signature((each,)))]


def _optional(first: Trace, second: Trace, is_loop: bool = False) -> Trace:
    sides = (first, second)
    if signature(sides[0]) == signature(sides[1]) and not any(_lefts(sides[0])) and not any(_lefts(sides[1])):
        return sides[0]
    return (Optional(sides, is_loop),)


def _raises(skeleton: Skeleton) -> bool:
    return bool(skeleton) and skeleton[-1][:2] == ("exit", "raise")


def _seen_from(item: Item, callee: str, line: int, under: Condition | None) -> Item:
    """What a callee issues, as its caller sees it."""
    if isinstance(item, Issued):
        return Issued(item.name, item.kind, line, ((callee, item.line), *item.path), under)
    if isinstance(item, Optional):
        sides = tuple(
            tuple(_seen_from(each, callee, line, under) for each in side if not isinstance(each, Left))
            for side in item.sides
        )
        return Optional((sides[0], sides[1]), item.is_loop)
    return item
