# SPDX-License-Identifier: Apache-2.0
"""What is kept in modules, in the attributes of objects, in options and in parameters, looked up from any file."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import cached_property
from typing import Any

from keepstep.parse.code.conditions import ALWAYS, is_ranked
from keepstep.parse.code.scope import may_be_ours
from keepstep.parse.code.unit import HeldSeen, Test, Unit
from keepstep.parse.code.values import OPTIONS

_PARAMETER = re.compile(r"^(?P<function>.+)\((?P<number>\d+)\)$")
MOST_HOPS = 6
FARTHEST = 3
"""Imports that lead from a file to where its options are filled."""
Held = tuple[HeldSeen, Unit]


class Sources:
    """Answers what is kept at a source. All that is put there must agree, or nothing is known."""

    def __init__(self, project: Any) -> None:  # the project itself, which asks here
        self._project = project
        self._places: dict[tuple[str, str], list[Held]] = {}
        self._objects: dict[tuple[str, str], str] = {}
        self._near: dict[str, list[Unit]] = {}

    def forget(self) -> None:
        """What was answered before all callers were known."""
        self._places.clear()
        self._objects.clear()

    @cached_property
    def _held(self) -> dict[str, list[Held]]:
        found: dict[str, list[Held]] = {}
        for unit in self._project.units.values():
            for name, entries in unit.held.items():
                if not name.startswith("("):
                    found.setdefault(name, []).extend((entry, unit) for entry in entries)
        return found

    def says(self, source: str, module: str, hops: int = MOST_HOPS) -> Test | None:
        """What is kept there says about ranks: as :meth:`Project.returned` does."""
        owner, _, name = source.rpartition(".")
        made = self.object_at(owner, module, hops - 1) if owner else ""
        method = f"{made}.{name}" if made and made != owner else ""
        if method and self._project.function(method, module) is not None:
            returned: Test | None = self._project.returned(method, module, hops - 1)
            return returned
        entries = self.held_at(source, module, hops)
        answers = [self._answer(entry, unit, hops - 1, len(entries) > 1) for entry, unit in entries]
        known = [each for each in answers if each is not None]
        if any(each == _UNSURE for each in known):
            return None
        return known[0] if known else None

    def _answer(self, entry: HeldSeen, unit: Unit, hops: int, has_default: bool) -> Test | None:
        """What one of the values says; None for a constant, which is for runs with one process."""
        test, is_rank, functions, differs, _, literal, given, _ = entry
        if literal is not None:
            return None
        if is_rank:
            return ("rank",)
        if given is not None:
            if has_default and self._project.is_never_given(*given):
                return None
            return self._project.given_to(*given, hops) or _UNSURE
        if test is not None:
            known = self._project.known(test, unit.module, hops)
            return known if is_ranked(known) else _UNSURE
        if differs:
            return ("some",)
        returned = [self._project.returned(name, unit.module, hops) for name in functions]
        if len(returned) > 1:  # it is computed of several
            return ("some",) if any(each is not None for each in returned) else _UNSURE
        return (returned[0] if returned else None) or _UNSURE

    def held_at(self, source: str, module: str, hops: int = MOST_HOPS) -> list[Held]:
        """All that is put at a source."""
        key = (source, module)
        if key not in self._places:
            self._places[key] = []  # for what leads to itself
            self._places[key] = self._look(source, module, hops)
        return self._places[key]

    def literal_at(self, source: str, module: str) -> str | None:
        """The constant that is kept there, if it is never another one: a default that nobody overrides."""
        parameter = _PARAMETER.match(source)
        if parameter is not None:
            return self._literal_given(parameter["function"], int(parameter["number"]))
        found = set()
        for entry, _ in self.held_at(source, module):
            literal, given = entry[5], entry[6]
            if given is not None and literal is None:
                literal = self._literal_given(*given)
                if literal is None and self._project.is_never_given(*given):
                    continue
            found.add(literal or "")
        return (found.pop() or None) if len(found) == 1 else None

    def _literal_given(self, function: str, parameter: int) -> str | None:
        """The constant that all callers give for a parameter, or leave to its default."""
        default = dict(self._project.functions[function].defaults).get(parameter)
        found = {_literal(test or default) for _, test in self._project.arguments(function, parameter)}
        return found.pop() if len(found) == 1 else None

    def _look(self, source: str, module: str, hops: int) -> list[Held]:
        owner, _, name = source.rpartition(".")
        if hops <= 0 or not owner:
            return []
        full = self._full_name(source, module, self._held, hops)
        if full:
            return self._held[full]
        made = self.object_at(owner, module, hops - 1)
        if made and made != owner and may_be_ours(made):
            return self.held_at(f"{made}.{name}", module, hops - 1)
        if self._options(owner):
            return self._in_options(name, module)
        return []

    def _options(self, owner: str) -> bool:
        """Whether it is called like an object with options."""
        parameter = _PARAMETER.match(owner)
        if parameter is None:
            return owner.rpartition(".")[2].strip("()") in OPTIONS
        function = self._project.functions.get(parameter["function"])
        number = int(parameter["number"])
        return function is not None and number < len(function.parameters) and function.parameters[number] in OPTIONS

    def _in_options(self, name: str, module: str) -> list[Held]:
        key = f"(options).{name}"
        return [(entry, unit) for unit in self._files_near(module) for entry in unit.held.get(key, ())]

    def _files_near(self, module: str) -> list[Unit]:
        """The file, what it imports, and what imports it."""
        if module not in self._near:
            found = {module}
            for edges in (self._imported, self._importers):
                reached = {module}
                for _ in range(FARTHEST):
                    reached |= {other for each in reached for other in edges.get(each, ())}
                found |= reached
            self._near[module] = [self._project.modules[each] for each in sorted(found)]
        return self._near[module]

    @cached_property
    def _imported(self) -> dict[str, set[str]]:
        """By module: the modules of the project that it imports."""
        modules = self._project.modules
        found = {}
        for module, unit in modules.items():
            names = {each for name in unit.imports.values() for each in (name, name.rpartition(".")[0]) if each}
            found[module] = {full for name in names if (full := _beside(name, module, modules)) and full != module}
        return found

    @cached_property
    def _importers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for module, others in self._imported.items():
            for other in others:
                found.setdefault(other, set()).add(module)
        return found

    def object_at(self, path: str, module: str, hops: int = MOST_HOPS) -> str:
        """The class of the object that a path leads to, by its full name; empty: unknown."""
        if hops <= 0 or not path:
            return ""
        if not may_be_ours(path):
            return path
        key = (path, module)
        if key not in self._objects:
            self._objects[key] = ""
            self._objects[key] = self._find_object(path, module, hops - 1)
        return self._objects[key]

    def _find_object(self, path: str, module: str, hops: int) -> str:
        parameter = _PARAMETER.match(path)
        if parameter is not None:
            return self._given(parameter["function"], int(parameter["number"]), hops)
        if path.endswith("]"):
            return self._element(path, module, hops)
        name = self._full_name(path, module, self._project.classes, hops)
        if name or "." not in path:
            return name
        function = self._project.function(path, module)
        if function is not None:
            inside = self._project.module_of(function)
            return _the_only(self.object_at(each.made, inside, hops) for each in function.returns if not each.elements)
        return _the_only(self._object_of(entry, unit, hops) for entry, unit in self.held_at(path, module, hops))

    def _element(self, path: str, module: str, hops: int) -> str:
        """What a function gives back at one place of a tuple: ``build.engine[0]``."""
        whole, _, index = path[:-1].rpartition("[")
        function = self._project.function(whole, module) if index.isdecimal() else None
        if function is None:
            return ""
        elements = [each.elements[int(index)].made for each in function.returns if int(index) < len(each.elements)]
        return _the_only(self.object_at(made, self._project.module_of(function), hops) for made in elements)

    def _object_of(self, entry: HeldSeen, unit: Unit, hops: int) -> str | None:
        _, _, functions, _, made, literal, given, _ = entry
        if literal == "None":
            return None
        if given is not None and not made:
            return self._given(*given, hops)
        return self.object_at(made or (functions[0] if len(functions) == 1 else ""), unit.module, hops)

    def _given(self, function: str, parameter: int, hops: int) -> str:
        """The class of what all callers give for a parameter."""
        return _the_only(
            self._given_by(caller.name, test, hops) for caller, test in self._project.arguments(function, parameter)
        )

    def _given_by(self, caller: str, test: Test | None, hops: int) -> str:
        module = self._project.module_of(self._project.functions[caller])
        if test is None or hops <= 0:
            return ""
        if test[0] in ("made", "of") or (test[0] == "rank" and len(test) > 1):
            return self.object_at(test[1], module, hops)
        return self._given(caller, test[1], hops - 1) if test[0] == "given" else ""

    def _full_name(self, name: str, module: str, there: Container[str], hops: int) -> str:
        """The name under which something of the project is known: imported, inherited, or from beside a script."""
        if name in there or hops <= 0:
            return name if name in there else ""
        owner, _, last = name.rpartition(".")
        project = self._project
        for base in project.classes.get(owner, ()):
            inherited = self._full_name(f"{base}.{last}", module, there, hops - 1)
            if inherited:
                return inherited
        unit = project.modules.get(owner)
        if unit is not None:
            imported = unit.imports.get(last, name)
            return self._full_name(imported, owner, there, hops - 1) if imported != name else ""
        folder = module
        while "." in folder:
            folder = folder.rpartition(".")[0]
            longer = f"{folder}.{name}"
            if longer in there or (before := longer.rpartition(".")[0]) in project.modules or before in project.classes:
                return self._full_name(longer, module, there, hops - 1)
        above = self._full_name(owner, module, project.classes, hops - 1) if "." in owner else ""
        return self._full_name(f"{above}.{last}", module, there, hops - 1) if above and above != owner else ""


_UNSURE: Test = ("?",)
_TRUTH = {ALWAYS: "True"}
"""False and None are one for those who decide, so they are no literal here."""


def _literal(test: Test | None) -> str | None:
    if test is not None and test[0] == "number":
        return repr(test[1])
    return _TRUTH.get(test) if test is not None else None


def _beside(name: str, module: str, modules: Container[str]) -> str:
    """The module that an import means: in the folder of the importer, or in one above."""
    folder = module
    while "." in folder:
        folder = folder.rpartition(".")[0]
        if f"{folder}.{name}" in modules:
            return f"{folder}.{name}"
    return name if name in modules else ""


def _the_only(names: Iterator[str | None]) -> str:
    """What all of them are, if they are the same."""
    found = {each for each in names if each is not None}
    return found.pop() if len(found) == 1 else ""
