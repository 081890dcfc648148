# SPDX-License-Identifier: Apache-2.0
"""The files of a program together: which function a name in one file means in another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from keepstep.check.code.program.kept_values import Sources
from keepstep.parse.code.conditions import ALWAYS, FIRST_ONLY, is_ranked, rank_among, rank_compared
from keepstep.parse.code.conditions import compared as number_compared
from keepstep.parse.code.ranks import MAIN_NAMES, is_rank_name
from keepstep.parse.code.unit import CLOCK, SOME, UNKNOWN, FunctionSeen, Skeleton, Test, Unit
from keepstep.parse.code.vocabulary import COMPILERS, SHARDING

MOST_HOPS = 6
"""Through re-exports and base classes."""

GivenBy = tuple[FunctionSeen, dict[int | str, Test]]
"""Who calls a function, and what is given that says something: by position, or by name."""


@dataclass
class Project:
    """All units, by the path of their file as it is shown."""

    units: Mapping[str, Unit]
    _resolved: dict[tuple[str, str], FunctionSeen | None] = field(default_factory=dict)
    _returned: dict[tuple[str, str, int], Test | None] = field(default_factory=dict)
    _shards: dict[str, bool] = field(default_factory=dict)
    _callers: dict[str, list[GivenBy]] | None = None
    _looks_into_objects: bool = False

    @cached_property
    def sources(self) -> Sources:
        """What is kept in modules, objects and options."""
        return Sources(self)

    @cached_property
    def functions(self) -> dict[str, FunctionSeen]:
        return {each.name: each for unit in self.units.values() for each in unit.functions}

    @cached_property
    def file_of(self) -> dict[str, str]:
        """The file that each function is in."""
        return {each.name: path for path, unit in self.units.items() for each in unit.functions}

    @cached_property
    def modules(self) -> dict[str, Unit]:
        return {unit.module: unit for unit in self.units.values()}

    @cached_property
    def classes(self) -> dict[str, tuple[str, ...]]:
        return {name: bases for unit in self.units.values() for name, bases in unit.classes.items()}

    def function(self, name: str, module: str) -> FunctionSeen | None:
        """The function that ``name`` means in a module: imported, inherited, or the ``__init__`` of a class."""
        if self._callers is None:
            _ = self._calls_of
        key = (name, module)
        if key not in self._resolved:
            self._resolved[key] = self._find(name, module, MOST_HOPS) if self._may_be_here(name) else None
        return self._resolved[key]

    def _may_be_here(self, name: str) -> bool:
        """Whether anything in the project has that name: a quick answer for the many names of libraries."""
        owner, _, last = name.rpartition(".")
        return last in self._last_names or (last == "__call__" and owner.rpartition(".")[2] in self._last_names)

    @cached_property
    def _last_names(self) -> frozenset[str]:
        """Those of functions and classes, and the names under which files import them."""
        defined = {name.rpartition(".")[2] for name in (*self.functions, *self.classes)}
        return frozenset(defined.union(*(unit.imports for unit in self.units.values())))

    def _find(self, name: str, module: str, hops: int) -> FunctionSeen | None:
        if hops <= 0 or "." not in name:
            return None
        found = self.functions.get(name)
        if found is not None:
            return found
        if "(" in name:
            return None
        if name in self.classes:
            return self._find(f"{name}.__init__", module, hops - 1)
        owner, _, last = name.rpartition(".")
        if last == "__call__" and owner in self.functions:  # a variable that holds it, or a part of its arguments
            return self.functions[owner]
        if last == "__call__" and owner in self.classes:
            return self._find(f"{owner}.forward", module, hops - 1) or self._find(f"{owner}.call", module, hops - 1)
        for base in self.classes.get(owner, ()):
            inherited = self._find(f"{base}.{last}", module, hops - 1)
            if inherited is not None:
                return inherited
        unit = self.modules.get(owner)
        if unit is not None and last in unit.imports and unit.imports[last] != name:
            return self._find(unit.imports[last], owner, hops - 1)
        return self._beside(name, module, hops) or self._of_object(owner, last, module, hops)

    def _of_object(self, owner: str, method: str, module: str, hops: int) -> FunctionSeen | None:
        """A method of what is kept somewhere."""
        made = self.sources.object_at(owner, module, hops - 1) if "." in owner and self._looks_into_objects else ""
        return self._find(f"{made}.{method}", module, hops - 1) if made and made != owner else None

    def _beside(self, name: str, module: str, hops: int) -> FunctionSeen | None:
        """A script imports its neighbours by their bare names: look in its folder, then in those above."""
        folder = module
        while "." in folder:
            folder = folder.rpartition(".")[0]
            longer = f"{folder}.{name}"
            owner = longer.rpartition(".")[0]
            if longer in self.functions or owner in self.modules or owner in self.classes or longer in self.classes:
                return self._find(longer, module, hops - 1)
        return None

    def within(self, function: FunctionSeen) -> list[FunctionSeen]:
        """The functions that are defined in a function."""
        unit = self.units[self.file_of[function.name]]
        return [each for each in unit.functions if each.name.startswith(f"{function.name}.")]

    def of_result(self, name: str, module: str, hops: int = MOST_HOPS) -> str:
        """The path of a method of what a function of the project returns, by what that is; empty: unknown."""
        owner, _, method = name.rpartition(".")
        function = self.function(owner, module) if hops > 0 and "." in owner else None
        if function is None and hops > 0 and "." in owner:
            made = self.sources.object_at(owner, module)
            return f"{made}.{method}" if made and made != owner else ""
        for returned in function.returns if function is not None else ():
            made = returned.made
            if made and function is not None:
                further = self.of_result(f"{made}.{method}", self.module_of(function), hops - 1)
                return further or f"{made}.{method}"
        return ""

    def compiler_of(self, name: str, module: str) -> str:
        """What compiled a function of the project, or what a function of the project returned; empty: nothing."""
        function = self.function(name, module)
        if function is not None and not name.endswith(".__init__"):
            compilers = [each for each in function.decorators if each in COMPILERS]
            if compilers or not name.endswith(".__call__"):
                return compilers[0] if compilers else ""
        method = self.of_result(name, module) if name.endswith(".__call__") else ""
        made = method.removesuffix(".__call__")
        if made in COMPILERS:
            return made
        result = self.function(made, self.module_of(function)) if made and function is not None else None
        return next((each for each in result.decorators if each in COMPILERS), "") if result is not None else ""

    def shards(self, function: FunctionSeen) -> bool:
        """Whether the file of a function divides arrays among devices, as programs of several processes do."""
        path = self.file_of[function.name]
        if path not in self._shards:
            unit = self.units[path]
            names = {*unit.imports.values(), *(call[0] for call in unit.calls)}
            self._shards[path] = any(name.startswith(SHARDING) for name in names)
        return self._shards[path]

    def returned(self, name: str, module: str, hops: int = MOST_HOPS) -> Test | None:
        """What a function's result says about ranks: ``("rank",)`` if it is one, a test if it is one, else None."""
        key = (name, module, hops)
        if key not in self._returned:
            self._returned[key] = None  # for functions that call each other in a circle
            self._returned[key] = self._what_returns(name, module, hops)
        return self._returned[key]

    def _what_returns(self, name: str, module: str, hops: int) -> Test | None:
        whole, _, index = name.removesuffix("]").rpartition("[") if name.endswith("]") else (name, "", "")
        function = self.function(whole, module) if hops > 0 else None
        if function is None:
            return self.sources.says(whole, module, hops) if hops > 0 and not index else None
        inside = self.module_of(function)
        returns = function.returns
        if index:
            at = int(index) if index.isdecimal() else 0
            returns = tuple(each.elements[at] for each in returns if at < len(each.elements))
        for test, is_rank, functions, differs, *_ in returns:
            if is_rank:
                return ("rank",)
            if differs and test is None:
                return ("some",)
            if test is not None:
                known = self.known(test, inside, hops - 1, function.parameters)
                if is_ranked(known):
                    return known
            elif len(functions) == 1:
                further = self.returned(functions[0], inside, hops - 1)
                if further is not None:
                    return further
        return None

    def module_of(self, function: FunctionSeen) -> str:
        return self.units[self.file_of[function.name]].module

    def given_to(self, function: str, parameter: int, hops: int = MOST_HOPS) -> Test | None:
        """What all callers of a function give for a parameter, if that differs by rank."""
        tests = [
            self.settled(test, caller, hops) if test is not None else None
            for caller, test in self.arguments(function, parameter)
        ]
        ranked = [test for test in tests if test is not None and (test[0] == "rank" or is_ranked(test))]
        return ranked[0] if ranked and len(ranked) == len(tests) and ranked[0] not in (SOME, CLOCK) else None

    def arguments(self, function: str, parameter: int) -> list[tuple[FunctionSeen, Test | None]]:
        """What each caller of a function gives for a parameter, as far as that says something."""
        calls = self._calls_of.get(function, [])
        names = self.functions[function].parameters if calls else ()
        if parameter >= len(names):
            return []
        return [(caller, given.get(parameter) or given.get(names[parameter])) for caller, given in calls]

    def is_never_given(self, function: str, parameter: int) -> bool:
        """Whether all that make an object of a class leave an argument out."""
        calls = self._calls_of.get(function, [])
        return (
            bool(calls)
            and not any("*" in given or "**" in given for _, given in calls)
            and not any(test is not None for _, test in self.arguments(function, parameter))
        )

    def settled(self, test: Test, caller: FunctionSeen, hops: int = MOST_HOPS) -> Test | None:
        """What an argument is, with all answered that is known in the function that gives it."""
        if hops <= 0 or test[0] == "made":
            return None
        if test[0] == "given":
            own = of_its_name(test[1], caller.parameters)
            return own or self.given_to(caller.name, test[1], hops - 1)
        if test[0] == "of":
            return self.returned(test[1], self.module_of(caller), hops - 1)
        if test[0] in ("rank", "number"):
            return test
        return self.known(test, self.module_of(caller), hops - 1, caller.parameters, caller.name)

    @property
    def _calls_of(self) -> dict[str, list[GivenBy]]:
        """By function: who calls it, and the arguments that say something."""
        if self._callers is None:
            # what an object is may be known by who makes it, so calls of functions come first, then those of methods
            self._callers, later = {}, []
            for unit in self.units.values():
                for function in unit.functions:
                    for _, name, _, arguments in calls_in(function.skeleton):
                        if not self._add_caller(name, unit.module, (function, dict(arguments))):
                            later.append((name, unit.module, (function, dict(arguments))))
            self._looks_into_objects = True
            self._resolved = {key: found for key, found in self._resolved.items() if found is not None}
            for name, module, given in later:
                self._add_caller(name, module, given)
            self._returned.clear()
            self.sources.forget()
        return self._callers

    def _add_caller(self, name: str, module: str, given: GivenBy) -> bool:
        callee = self.function(name, module)
        if callee is not None and self._callers is not None:
            self._callers.setdefault(callee.name, []).append(given)
        return callee is not None

    def known(
        self, test: Test, module: str, hops: int = MOST_HOPS, parameters: tuple[str, ...] = (), function: str = ""
    ) -> Test:
        """The test with the calls in it answered, and parameters named like a rank taken for one."""
        if test[0] == "param":
            given = of_its_name(test[1], parameters)
            if given is None and isinstance(test[1], int):
                given = self.given_to(function, test[1], hops)
            return compared(given, test[2], test[3]) if given else ("?",)
        if test[0] == "call":
            return self.answered(test, module, hops)
        if test[0] in ("and", "or"):
            return (test[0], tuple(self.known(each, module, hops, parameters, function) for each in test[1]))
        return ("not", self.known(test[1], module, hops, parameters, function)) if test[0] == "not" else test

    def answered(self, test: Test, module: str, hops: int = MOST_HOPS) -> Test:
        """What the result of a function, or what is kept at a source, says as a condition."""
        _, name, comparison, number = test
        if comparison == "named":
            if self.function(name, module) is not None:
                return ALWAYS
            comparison = ""
            if name.rpartition(".")[2] in MAIN_NAMES:
                return FIRST_ONLY
        returned = self.returned(name, module, hops)
        return UNKNOWN if returned is None else compared(returned, comparison, number)

    def is_ranked(self, ranked: bool | tuple[str, ...], module: str) -> bool:
        """Whether a value differs by rank, if functions decide it."""
        if isinstance(ranked, bool):
            return ranked
        return any(self.returned(name, module) is not None for name in ranked)


def calls_in(skeleton: Skeleton) -> Iterator[tuple[Any, ...]]:
    """The calls of functions in a skeleton."""
    for item in skeleton:
        if item[0] == "call":
            yield item
        elif item[0] == "if":
            yield from calls_in(item[4])
            yield from calls_in(item[5])
        elif item[0] == "loop":
            yield from calls_in(item[4])
        elif item[0] == "try":
            for part in (item[1], *item[2]):
                yield from calls_in(part)


def of_its_name(parameter: int | str, parameters: tuple[str, ...]) -> Test | None:
    """What a parameter holds if nothing else is known: a rank, if that is its name."""
    name = parameter if isinstance(parameter, str) else "".join(parameters[parameter : parameter + 1])
    return ("rank",) if is_rank_name(name) else FIRST_ONLY if name in MAIN_NAMES else None


def compared(value: Test, comparison: str, number: int | str | tuple[int, ...]) -> Test:
    """A value of which ``("rank",)``, a number or a test is known, compared, or taken as a condition."""
    if value[0] == "number":
        return number_compared(comparison, value[1], number)
    if isinstance(number, str):
        return UNKNOWN
    if value == CLOCK:
        return ("some",) if comparison else UNKNOWN
    if value[0] != "rank":
        return value if not comparison else ("some",)
    if isinstance(number, tuple):
        return rank_among(list(number), comparison == "In")
    return rank_compared(comparison, number) if comparison else ("=", False, True)
