# SPDX-License-Identifier: Apache-2.0
"""The collectives that each function issues, in order, on the first rank and on another one; and where they differ.

What does not depend on the rank is the same for both, so it is kept as a branch of which either side may be taken. Two
ranks that issue the same sequence are in step, however the program is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from keepstep.check.code.program.callers import Callers, items, tests_in
from keepstep.check.code.program.differences import (
    COMPILED,
    Condition,
    Divergence,
    Issued,
    Item,
    Left,
    Optional,
    Trace,
    differences,
    foremost,
    optional,
    signature,
)
from keepstep.check.code.program.project import Project, calls_in, compared, of_its_name
from keepstep.parse.code.conditions import ALWAYS, functions_in, is_ranked, is_word, parts_of
from keepstep.parse.code.ranks import MAIN_DECORATORS
from keepstep.parse.code.unit import CLOCK, SOME, UNKNOWN, FunctionSeen, Skeleton, Test
from keepstep.parse.code.values import is_told
from keepstep.parse.code.vocabulary import COLLECTIVES, WRAPPERS

FIRST, ANOTHER = 0, 1
MOST_CALLERS = 4
DEEPEST = 12
"""Calls within calls."""
LONGEST = 400
_ONCE = re.compile(r"not self\.\w+|self\.\w+ is None|not hasattr\(self, .*\)")
"""The conditions under which an object prepares itself when it is first used."""
_DONE = re.compile(r"hasattr\(self, .*\)|self\.\w+ is not None|self\.\w*(?:prepared|initiali[sz]ed|wrapped|ready)")
"""Those under which it has done so."""
_ENDS = frozenset({"break", "return", "exit"})
Bound = tuple[tuple[int | str, Test], ...]


@dataclass
class Tracer:
    """Follows the functions of a project."""

    project: Project
    _memory: dict[tuple[str, int, Bound], Trace] = field(default_factory=dict)
    _local: dict[str, list[Divergence]] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _given: dict[str, set[Bound]] = field(default_factory=dict)
    """By function: what its callers give it, where that says something."""
    _by_words: dict[str, bool] = field(default_factory=dict)
    _seen: dict[tuple[str, int, Bound, int, Condition | None], Trace] = field(default_factory=dict)
    """What a function issues, as one of its callers sees it."""
    _owns: dict[tuple[str, ...], str] = field(default_factory=dict)

    def divergences(self) -> Iterator[tuple[FunctionSeen, Divergence]]:
        """All differences, each in the function in which it begins."""
        functions = [each for each in self.project.functions.values() if each.skeleton]
        suspects = {each.name for each in functions if self._may_differ(each)}
        leading = Callers(self.project, functions).of(suspects) if suspects else set()
        for function in functions:
            if function.name in leading:
                self.trace(function, FIRST, ())
        for function in functions:
            if function.name in suspects:
                for found in self._differing(function):
                    yield function, found

    def _may_differ(self, function: FunctionSeen) -> bool:
        """Whether a condition in the function itself, or an argument that it gives, differs by rank, or a decorator
        lets only some ranks run it."""
        if any(self._lets_some_run(each, self.project.module_of(function)) for each in function.decorators):
            return True
        one, other = TracePlace(function, FIRST, {}), TracePlace(function, ANOTHER, {})
        if any(self._gives_what_decides(item, one) for item in calls_in(function.skeleton)):
            return True
        for test in tests_in(function.skeleton):
            holds = self.holds(test, one)
            if holds == "split" or holds is not self.holds(test, other):
                return True
        return False

    def _gives_what_decides(self, item: tuple[Any, ...], place: TracePlace) -> bool:
        given = [self._passed_on(test, place) for _, test in item[3]]
        return any(test is not None and _decides(test) for test in given)

    def _differing(self, function: FunctionSeen) -> list[Divergence]:
        found: list[Divergence] = []
        for bound in sorted(self._given.get(function.name, {()}), key=str)[:MOST_CALLERS]:
            self._memory.pop((function.name, FIRST, bound), None)
            self._local[function.name] = []
            first = self.trace(function, FIRST, bound)
            another = self.trace(function, ANOTHER, bound)
            found += self._local.pop(function.name)
            if not self._is_made_up_for(function):
                found += differences(first, another, function.name)
            found += self._all_of_it(function, first)
        return list({(each.issued.line, each.how, each.condition.line): each for each in found}.values())

    def _is_made_up_for(self, function: FunctionSeen) -> bool:
        """Whether ranks differ on entering a context, and are even again when they leave it."""
        owner, _, name = function.name.rpartition(".")
        if name not in ("__enter__", "__exit__", "__aenter__", "__aexit__"):
            return False
        a = "a" if name.startswith("__a") else ""
        both = [self.project.functions.get(f"{owner}.__{a}{each}__") for each in ("enter", "exit")]
        enter, leave = both
        if enter is None or leave is None:
            return False
        ways = [(*self.trace(enter, world, ()), *self.trace(leave, world, ())) for world in (FIRST, ANOTHER)]
        one, other = ([each for each in way if not isinstance(each, Left)] for way in ways)
        return signature(tuple(one)) == signature(tuple(other))

    def _all_of_it(self, function: FunctionSeen, trace: Trace) -> list[Divergence]:
        """Where a decorator lets only some ranks run the function."""
        inside = foremost(trace) if function.decorators else None
        if inside is None:
            return []
        for decorator in function.decorators:
            if self._lets_some_run(decorator, self.project.module_of(function)):
                condition = Condition(function.name, function.line, f"@{_short(decorator)}")
                return [Divergence(inside, "branch", condition)]
        return []

    def _lets_some_run(self, decorator: str, module: str) -> bool:
        """Whether a decorator calls what it decorates on some ranks only, by its name, or as the project defines it."""
        if _short(decorator) in MAIN_DECORATORS:
            return True
        maker = self.project.function(decorator, module) if "." in decorator else None
        inner = self.project.within(maker) if maker is not None else []
        return any(self._calls_on_some(each.skeleton, TracePlace(each, FIRST, {})) for each in inner)

    def _calls_on_some(self, skeleton: Skeleton, place: TracePlace) -> bool:
        """Whether an argument is called under a condition on which ranks differ, and in no other way."""
        ways = [item for item in skeleton if _calls_an_argument([item])]
        if len(ways) != 1 or ways[0][0] != "if":
            left = [item for item in skeleton if item[0] == "if" and item[4] and item[4][-1][0] == "exit"]
            return len(ways) == 1 and ways[0][0] == "on" and any(self._differs(item[3], place) for item in left[:1])
        _, _, _, test, then, otherwise = ways[0]
        return self._differs(test, place) and _calls_an_argument(then) != _calls_an_argument(otherwise)

    def _differs(self, test: Test, place: TracePlace) -> bool:
        return self.holds(test, place) != self.holds(test, replace(place, world=ANOTHER))

    def trace(self, function: FunctionSeen, world: int, bound: Bound) -> Trace:
        key = (function.name, world, bound)
        if key not in self._memory:
            if function.name in self._open or len(self._open) > DEEPEST:
                return ()
            self._open.add(function.name)
            try:
                made = self._follow(function.skeleton, TracePlace(function, world, dict(bound)), None)
            finally:
                self._open.discard(function.name)
            self._memory[key] = made[:LONGEST]
        return self._memory[key]

    def _follow(self, skeleton: Skeleton, place: TracePlace, under: Condition | None) -> Trace:
        found: list[Item] = []
        for number, item in enumerate(skeleton):
            if item[0] == "if" and _is_return(item[4]) and not item[5] and self._is_done(item, place):
                return (*found, *optional(self._follow(skeleton[number + 1 :], place, under), (), is_private=True))
            found += self._item(item, place, under)
            if found and isinstance(found[-1], Left):
                break
            if len(found) > LONGEST:
                break
        return tuple(found)

    def _is_done(self, item: tuple[Any, ...], place: TracePlace) -> bool:
        """Whether an object has prepared itself, on all ranks alike."""
        return _DONE.fullmatch(item[2]) is not None and self.holds(item[3], place) is None

    def _item(self, item: tuple[Any, ...], place: TracePlace, under: Condition | None) -> Trace:
        what = item[0]
        if what == "c":
            _, name, kind, line, over_a_group = item
            if kind == COMPILED:
                return self._compiled(name, line, place, under)
            return () if over_a_group else (Issued(name, kind, line, (), under),)
        if what == "call":
            return self._called(item, place, under)
        if what == "back":
            wrapper = self._own(item[1], place)
            return (Issued(f"{wrapper}.backward", "backward", item[2], (), under),) if wrapper else ()
        if what == "on":
            return self._on_argument(item, place, under)
        if what == "exit":
            return () if item[1] == "raise" else (Left(item[1], item[2], under, place.loop),)
        if what == "if":
            return self._branch(item, place, under)
        if what == "loop":
            return self._loop(item, place, under)
        return self._follow(item[1], place, under)  # what is tried

    def _called(self, item: tuple[Any, ...], place: TracePlace, under: Condition | None) -> Trace:
        _, name, line, given = item
        module = self.project.module_of(place.function)
        callee = self.project.function(name, module)
        compiler = self.project.compiler_of(name, module)
        if compiler:
            return self._compiled(f"{compiler}:{name}", line, place, under)
        method = self.project.of_result(name, module) if callee is None or name.endswith(".__call__") else ""
        if method in COLLECTIVES:
            return (Issued(method, COLLECTIVES[method], line, (), under),)
        if callee is None:
            return ()
        names = callee.parameters
        bound = _with_the_rest(dict(callee.defaults), dict(given).get("**"), place, names)
        for at, test in given:
            if at in ("*", "**"):
                continue
            test = self._passed_on(test, place) or UNKNOWN
            if test == UNKNOWN:  # it is not the default
                bound.pop(names.index(at) if at in names else at, None)
            if test == UNKNOWN and isinstance(at, str) and at not in names:  # for what is taken out of its **kwargs
                bound[at] = UNKNOWN
            elif test != UNKNOWN and (not is_word(test) or self._asks_for_words(callee)):
                bound[names.index(at) if at in names else at] = test
        told = tuple(sorted(((at, test) for at, test in bound.items() if test[0] == "made"), key=str))
        self._given.setdefault(callee.name, set()).add(told)
        # where the callee differs in itself, that is reported there: so it is followed for one rank only; but if an
        # argument decides, it is reported here
        decides = [at for at, test in bound.items() if _decides(test) and of_its_name(at, names) is None]
        if decides:
            under = under or Condition(
                place.function.name, line, f"{_short(callee.name)}(..., {_name(decides[0], names)})"
            )
        world, given = place.world if decides else FIRST, tuple(sorted(bound.items(), key=str))
        key = (callee.name, world, given, line, under)
        if key not in self._seen or callee.name in self._open:
            trace = self.trace(callee, world, given)
            seen = tuple(_seen_from(each, callee.name, line, under) for each in trace if not _is_private(each))
            if (callee.name, world, given) not in self._memory:  # it calls itself, so this is not all of it
                return seen
            self._seen[key] = seen
        return self._seen[key]

    def _asks_for_words(self, function: FunctionSeen) -> bool:
        """Whether a word that it is given may decide something in it, or in what it gives it to."""
        if function.name not in self._by_words:
            compared = any(is_word(test) for test in parts_of(tests_in(function.skeleton)))
            passed_on = any(test[0] == "given" for item in calls_in(function.skeleton) for _, test in item[3])
            self._by_words[function.name] = compared or passed_on
        return self._by_words[function.name]

    def _passed_on(self, test: Test, place: TracePlace) -> Test | None:
        """What an argument is, if the function was itself given it."""
        if test[0] == "given":
            return place.bound.get(test[1]) or of_its_name(test[1], place.function.parameters)
        if test[0] == "of":
            return self._looked_up(test[1], self.project.module_of(place.function))
        if functions_in(test):
            known = self.project.known(test, self.project.module_of(place.function))
            return known if is_ranked(known) else None
        return test

    def _looked_up(self, source: str, module: str) -> Test | None:
        """What is kept at a source, if a function may decide by it."""
        found = self.project.returned(source, module)
        if found is not None:
            return found
        made = self.project.sources.object_at(source, module)
        return ("made", made) if made and is_told(made) else None

    def _compiled(self, name: str, line: int, place: TracePlace, under: Condition | None) -> Trace:
        """A program for all devices: of those of all processes, if the file says so."""
        compiler, _, name = name.partition(":")
        spans = compiler == "jax.pmap" or self.project.shards(place.function)
        return (Issued(name, COMPILED, line, (), under),) if spans else ()

    def _on_argument(self, item: tuple[Any, ...], place: TracePlace, under: Condition | None) -> Trace:
        _, parameter, method, line = item
        given = place.bound.get(parameter)
        if given is None or given[0] != "made":
            return ()
        name = f"{given[1]}.{method}"
        if name in COLLECTIVES:
            return (Issued(name, COLLECTIVES[name], line, (), under),)
        return self._called(("call", name, line, ()), place, under)

    def _branch(self, item: tuple[Any, ...], place: TracePlace, under: Condition | None) -> Trace:
        _, line, text, test, then, otherwise = item
        holds = self.holds(test, place)
        if test[0] == "own" or (test[0] == "not" and test[1][0] == "own"):
            then, otherwise = _as_raised(then), _as_raised(otherwise)
        if _raises(then) or _raises(otherwise):
            # a path that ends with an exception is not one on which the run goes on
            return self._follow(otherwise if _raises(then) else then, place, under)
        condition = Condition(place.function.name, line, text, test)
        if holds == "split":  # nobody knows which ranks: one takes this side, the other one that
            return self._follow(otherwise if place.world else then, place, condition)
        if holds is None:
            elsewhere = self.holds(test, replace(place, world=1 - place.world))
            inner = under if elsewhere is None else condition
            is_once = _ONCE.fullmatch(text) is not None
            return optional(self._follow(then, place, inner), self._follow(otherwise, place, under), is_private=is_once)
        differs = self.holds(test, replace(place, world=1 - place.world)) is not holds
        return self._follow(then if holds else otherwise, place, condition if differs else under)

    def _loop(self, item: tuple[Any, ...], place: TracePlace, under: Condition | None) -> Trace:
        _, line, text, test, body = item
        place = replace(place, loop=(line, last_line(body)))
        holds = self.holds(test, place)
        if holds == "split" or (holds is not None and self.holds(test, replace(place, world=1 - place.world)) != holds):
            condition = Condition(place.function.name, line, text, test)
            inside = foremost(self._follow(body, place, condition))
            if inside is not None and place.function.name in self._local and place.world == FIRST:
                self._local[place.function.name].append(Divergence(inside, "loop", condition))
            return ()
        is_endless = test == ALWAYS and not any(each[0] == "exit" and each[1] in _ENDS for each in items(body))
        return optional(self._follow(body, place, under), (), is_loop=True, is_private=is_endless)

    def _own(self, makers: tuple[str, ...], place: TracePlace) -> str:
        """The wrapper around the model that made a value of this rank's own data; empty: all may have the same."""
        if makers not in self._owns:
            self._owns[makers] = self._find_own(makers, self.project.module_of(place.function))
        return self._owns[makers]

    def _find_own(self, makers: tuple[str, ...], module: str) -> str:
        for name in [each[1:] for each in makers if each.startswith(">")]:
            function = self.project.function(name, module)
            if function is None or foremost(self.trace(function, FIRST, ())) is not None:
                return ""
        made = [each.removesuffix(".__call__") for each in makers if not each.startswith(">")]
        objects = [self.project.sources.object_at(each, module) for each in made]
        return next((each for each in objects if each in WRAPPERS), "")

    def holds(self, test: Test, place: TracePlace) -> bool | str | None:
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
            return self.holds(self.project.answered(test, self.project.module_of(place.function)), place)
        if what == "param":
            value = place.bound.get(test[1]) or of_its_name(test[1], place.function.parameters)
            return None if value is None or value[0] == "made" else self.holds(compared(value, test[2], test[3]), place)
        if what == "own":
            trains = any(item[0] == "back" for item in items(place.function.skeleton))
            return "split" if trains and self._own(test[1], place) else None
        if what in ("and", "or"):
            every = [self.holds(each, place) for each in test[1]]
            decides: bool = what == "or"
            if any(each is decides for each in every):
                return decides
            if "split" in every:
                return "split"
            return None if None in every else not decides
        return None


@dataclass(frozen=True)
class TracePlace:
    """The function that is followed, for which rank, with which arguments that differ by rank."""

    function: FunctionSeen
    world: int
    bound: dict[int | str, Test]
    loop: tuple[int, int] | None = None
    """The first and last line of the innermost loop."""


def _with_the_rest(
    bound: dict[int | str, Test], rest: Test | None, place: TracePlace, names: tuple[str, ...]
) -> dict[int | str, Test]:
    """What a function is given by ``**kwargs``: what its caller was given itself, or nobody knows what."""
    if rest is None:
        return bound
    handed = {at: test for at, test in place.bound.items() if isinstance(at, str)} if rest != UNKNOWN else {"**": rest}
    if "**" in handed:
        bound = {at: test for at, test in bound.items() if isinstance(at, int)}
    return {**bound, **{names.index(at) if at in names else at: test for at, test in handed.items()}}


def last_line(skeleton: Skeleton) -> int:
    """The last line of anything in it."""
    found = 0
    for item in skeleton:
        inner = [part for part in item[1:] if isinstance(part, list)]
        lines = [part for part in item[1:] if isinstance(part, int) and not isinstance(part, bool)]
        nested = [each for part in inner for each in (part if part and isinstance(part[0], list) else [part])]
        found = max(found, *lines, *(last_line(part) for part in nested), 0)
    return found


def _decides(test: Test) -> bool:
    """Whether an argument is a rank, or a condition on which ranks differ."""
    return test[0] == "rank" or (test not in (SOME, CLOCK) and is_ranked(test))


def _name(at: int | str, names: tuple[str, ...]) -> str:
    return names[at] if isinstance(at, int) and at < len(names) else str(at)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _calls_an_argument(skeleton: Skeleton) -> bool:
    return any(
        item[:1] == ("on",) and item[2] == "__call__"
        if item[0] != "if"
        else _calls_an_argument(item[4]) or _calls_an_argument(item[5])
        for item in skeleton
    )


def _as_raised(skeleton: Skeleton) -> Skeleton:
    """Whoever ends its process because its numbers are broken ends the run, as with an exception."""
    if skeleton and skeleton[-1][:2] == ("exit", "exit"):
        return [*skeleton[:-1], ("exit", "raise", skeleton[-1][2])]
    return skeleton


def _is_return(skeleton: Skeleton) -> bool:
    return len(skeleton) == 1 and skeleton[0][:2] == ("exit", "return")


def _raises(skeleton: Skeleton) -> bool:
    return bool(skeleton) and skeleton[-1][:2] == ("exit", "raise")


def _is_private(item: Item) -> bool:
    """Whether a caller does not see it."""
    return item.__class__ is Left or (isinstance(item, Optional) and item.is_private)


def _seen_from(item: Item, callee: str, line: int, under: Condition | None) -> Item:
    """What a callee issues, as its caller sees it."""
    if isinstance(item, Issued):
        return Issued(item.name, item.kind, line, ((callee, item.line), *item.path), under)
    if isinstance(item, Optional):
        one, other = (
            tuple([_seen_from(each, callee, line, under) for each in side if not _is_private(each)])
            for side in item.sides
        )
        return Optional((one, other), item.is_loop)
    return item
