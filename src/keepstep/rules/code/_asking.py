# SPDX-License-Identifier: Apache-2.0
"""What the rules about programs ask: calls by name, the calls of a function, who calls it, what it stands in."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from keepstep.model.facts import CodeBlock, CodeCall, CodeDiverges, CodeFile, CodeFunction, CodeHandler, Value
from keepstep.model.lazy_evidence import MadeLater
from keepstep.rules.api import Evidence, EvidenceSet
from keepstep.rules.code._made_later import Assignments, ByFunction, Files, by_column, has_word, writing

Call = Evidence[CodeCall]


class ProjectFacts(Assignments):
    """The facts of a project, by what rules look for.

    There are many calls and assignments, and each takes time to make. Rules ask for those of a name, of a function, or
    of the files that contain a word, and only then are they made.
    """

    def __init__(self, seen: EvidenceSet) -> None:
        super().__init__(seen)
        self._calls: tuple[MadeLater[CodeCall], ...] = seen.later.get(CodeCall, ())
        self._leading: dict[str, set[str]] = {}
        self._leading_files: dict[str, set[str]] = {}
        self._families: dict[str, frozenset[str]] = {}
        self._at_once: dict[str, set[str]] = {}
        self._among: dict[tuple[str, tuple[str, ...]], list[Call]] = {}
        self._names: dict[str, set[str]] = {}
        self._syntax: dict[str, ast.Module | None] = {}
        self._lines: dict[str, list[bytes]] = {}
        self.files = {each.origin.source: each.fact for each in seen.all(CodeFile)}

    @cached_property
    def _by_name(self) -> dict[str, Files]:
        """The files in which calls of each name stand."""
        return by_column(self._calls, "name")

    @cached_property
    def _methods(self) -> dict[str, list[str]]:
        """The names that end with each method."""
        found = defaultdict(list)
        for name in self._by_name:
            found[name.rpartition(".")[2]].append(name)
        return found

    @cached_property
    def _by_function(self) -> ByFunction:
        return ByFunction(self._calls)

    @cached_property
    def _by_file(self) -> dict[str, MadeLater[CodeCall]]:
        return {each.path: each for each in self._calls}

    def _of(self, names: Iterable[str], paths: Container[str] | None = None) -> Iterator[Call]:
        """The calls of any of these names, in order of the files; only those in some files, if these are given."""
        found: dict[str, tuple[MadeLater[CodeCall], list[int]]] = {}
        for name in names:
            for file in self._by_name.get(name, ()):
                if paths is None or file.path in paths:
                    found.setdefault(file.path, (file, []))[1].extend(file.where("name", name))
        for path in sorted(found, key=self._order.__getitem__) if len(found) > 1 else found:
            file, numbers = found[path]
            for number in sorted(numbers):
                yield file[number]

    @cached_property
    def _order(self) -> dict[str, int]:
        """The place of each file among all."""
        return {file.path: number for number, file in enumerate(self._calls)}

    @cached_property
    def all(self) -> tuple[Call, ...]:
        """All calls. It takes long: ask for those of some names, or in files with a word, wherever that will do."""
        return self._seen.all(CodeCall)

    def named(self, is_wanted: Callable[[str], object], *words: str) -> Iterator[Call]:
        """The calls whose names are wanted, in order of the files; of those that contain a word, if any is given."""
        names = [name for name in self._by_name if is_wanted(name)]
        return self._of(names, self.paths_near(*words) if words else None)

    def aimed(self, is_wanted: Callable[[str, str], object], paths: Container[str]) -> Iterator[Call]:
        """The calls in these files that are wanted by their names and by the functions of the project they call."""
        known: dict[tuple[str, str], bool] = {}
        for file in self._calls:
            if file.path not in paths:
                continue
            for number, pair in enumerate(zip(file.column("name"), file.column("target"), strict=True)):
                if pair not in known:
                    known[pair] = bool(is_wanted(*pair))
                if known[pair]:
                    yield file[number]

    def paths_near(self, *words: str) -> set[str]:
        """The files that contain one of these words."""
        return {each.path for each in self._calls if has_word(each, words)}

    def blocks_in(self, path: str) -> set[CodeBlock]:
        """The blocks that the calls of a file stand in."""
        return {block for within in set(self._by_file[path].column("within")) for block in within}

    def calls_writing(self, *words: str) -> Iterator[Call]:
        """The calls on whose lines one of these words stands."""
        return writing(self._calls, words)

    def calls_near(self, *words: str) -> Iterator[Call]:
        """All calls of the files that contain one of these words."""
        return (each for file in self._calls if has_word(file, words) for each in file)

    @cached_property
    def functions(self) -> dict[str, Evidence[CodeFunction]]:
        """All functions by their full name."""
        return {each.fact.name: each for each in self._seen.all(CodeFunction)}

    @cached_property
    def functions_in(self) -> dict[str, list[Evidence[CodeFunction]]]:
        """The functions of each file."""
        found = defaultdict(list)
        for each in self.functions.values():
            found[each.origin.source].append(each)
        return dict(found)

    @cached_property
    def _modules(self) -> dict[str, str]:
        return {fact.module: path for path, fact in self.files.items()}

    @cached_property
    def _endings(self) -> dict[str, list[str]]:
        """The files by every ending of their modules' names."""
        found = defaultdict(list)
        for module, path in self._modules.items():
            parts = module.split(".")
            for start in range(len(parts)):
                found[".".join(parts[start:])].append(path)
        return found

    @cached_property
    def _imported(self) -> dict[str, set[str]]:
        """By file: the files of the project that it imports."""
        return {path: self._files_named(fact.imports, path) for path, fact in self.files.items()}

    def _files_named(self, imports: Iterable[str], path: str) -> set[str]:
        """The files that these names mean in a file that imports them."""
        module, endings = self.files[path].module, self._endings
        names = {each for name in imports for each in (name, name.rpartition(".")[0]) if each}
        there = {_beside(name, module, self._modules) for name in names}
        far = {
            only[0]
            for name in names
            if len(only := endings.get(name, [])) == 1 and _can_be_meant(name, self.files[only[0]].module, module)
        }
        return {each for each in there | far if each} - {path}

    def imported_before(self, path: str, line: int | None) -> set[str]:
        """The files that run before a line of a file does, as they are imported above it; None: before all calls."""
        above = [name for name, at in self.files[path].at_once if line is None or at < line]
        found, pending = set(), list(self._files_named(above, path))
        while pending:
            each = pending.pop()
            if each not in found:
                found.add(each)
                pending += self._imported_at_once(each)
        return found - {path}

    def _imported_at_once(self, path: str) -> set[str]:
        if path not in self._at_once:
            self._at_once[path] = self._files_named([name for name, _ in self.files[path].at_once], path)
        return self._at_once[path]

    @cached_property
    def _importers(self) -> dict[str, set[str]]:
        found = defaultdict(set)
        for path, others in self._imported.items():
            for other in others:
                found[other].add(path)
        return found

    def related(self, place: Evidence[Any]) -> frozenset[str]:
        """The file, the files that import it, and what all of these import: they may run in one process."""
        return self._related(place.origin.source)

    def near(self, place: Evidence[Any]) -> frozenset[str]:
        """The file, what it imports, and the files that import it: closer than all that are related."""
        path = place.origin.source
        return frozenset({path} | self._imported.get(path, set()) | self._importers.get(path, set()))

    def _related(self, path: str) -> frozenset[str]:
        if path not in self._families:
            above = _closure({path}, self._importers)
            self._families[path] = frozenset(_closure(above, self._imported))
        return self._families[path]

    def users(self, place: Evidence[Any]) -> set[str]:
        """The file, and those that import it."""
        return _closure({place.origin.source}, self._importers)

    def functions_that_lead_to(self, name: str) -> set[str]:
        """The functions in which a call of this name stands, or that call one of them."""
        if name not in self._leading:
            found = {each.fact.function for each in self.calls(name)}
            pending = list(found)
            while pending:
                for each in self.callers(pending.pop()):
                    if each.fact.function not in found:
                        found.add(each.fact.function)
                        pending.append(each.fact.function)
            self._leading[name] = found
        return self._leading[name]

    def files_that_lead_to(self, name: str) -> set[str]:
        """The files of these functions, if something in the file uses them."""
        if name not in self._leading_files:
            calls = [
                *self.calls(name),
                *(each for called in self.functions_that_lead_to(name) for each in self.callers(called)),
            ]
            self._leading_files[name] = {each.origin.source for each in calls}
        return self._leading_files[name]

    def among(self, place: Evidence[Any], *names: str) -> list[Call]:
        """The calls of these names in the files that are related to that of ``place``."""
        key = (place.origin.source, names)
        if key not in self._among:
            related = self.related(place)
            self._among[key] = [each for name in names for each in self._of((name,), related)]
        return self._among[key]

    def methods_among(self, place: Evidence[Any], *names: str) -> list[Call]:
        """The same for methods, whatever the object."""
        related = self.related(place)
        return [each for name in names for each in self._of(self._methods.get(name, ()), related)]

    def any_imports(self, place: Evidence[Any], *modules: str) -> bool:
        """Whether a related file imports one of these modules, or something of them."""
        return any(self._imports(path, modules) for path in self.related(place))

    def _imports(self, path: str, modules: tuple[str, ...]) -> bool:
        names = self.files[path].imports
        return any(name == module or name.startswith(module + ".") for name in names for module in modules)

    def default_of(self, place: Evidence[Any], value: Value) -> str | None:
        """The default of the option that a value like ``args.batch_size`` is, if one is declared near."""
        owner, _, name = value.text.rpartition(".")
        if owner.rpartition(".")[2] not in _OPTIONS or not name.isidentifier():
            return None
        declared = self._of(self._methods.get("add_argument", ()), self.near(place))
        found = [each.fact.argument("default") for each in declared if _is_option(each, name)]
        return found[0].literal if len(found) == 1 and found[0] is not None else None

    def callers(self, function: str) -> list[Call]:
        """The calls of a function of the project."""
        files = self._by_target.get(function, ()) if function else ()
        return [file[number] for file in files for number in file.where("target", function)]

    def origins(self, place: Call, value: Value, hops: int = 3) -> list[tuple[Call, Value]]:
        """Where a value was handed in: as a parameter, or as one that an object keeps. None is: the value itself."""
        name, function = value.text, self.functions.get(place.fact.function)
        if name.startswith("self.") and function is not None:
            owner = place.fact.function.rpartition(".")[0]
            kept = [each for each in self.assigned_to(name) if each.fact.target == name]
            kept = [each for each in kept if each.fact.function.rpartition(".")[0] == owner]
            if not kept:  # a field
                function, name = self.functions.get(f"{owner}.__init__"), name.removeprefix("self.")
            elif len(kept) == 1:
                function, name = self.functions.get(kept[0].fact.function), kept[0].fact.value.text
        if not hops or function is None or name not in function.fact.parameters:
            return [(place, value)]
        at = function.fact.parameters.index(name)
        given = [(each, each.fact.argument(name, at)) for each in self.callers(function.fact.name)]
        found = [each for caller, more in given if more is not None for each in self.origins(caller, more, hops - 1)]
        return found if found and all(more is not None for _, more in given) else [(place, value)]

    @cached_property
    def _by_target(self) -> dict[str, Files]:
        return by_column(self._calls, "target")

    @cached_property
    def handlers(self) -> tuple[Evidence[CodeHandler], ...]:
        return self._seen.all(CodeHandler)

    def tried(self, handler: Evidence[CodeHandler]) -> list[Call]:
        """The calls in the ``try`` of a handler."""
        return [
            each
            for each in self.inside(handler.fact.function)
            if any(block.kind == "try" and block.line == handler.fact.tried for block in each.fact.within)
        ]

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls of these names, in order of the files."""
        for name in names:
            yield from self._of((name,))

    def methods(self, *names: str) -> Iterator[Call]:
        """The calls whose last part is one of these names, whatever the object."""
        for name in names:
            yield from self._of(self._methods.get(name, ()))

    def inside(self, function: str) -> Sequence[Call]:
        """The calls in a function, in order."""
        return self._by_function.get(function, [])

    def aims_inside(self, function: str) -> Iterator[tuple[str, str, str]]:
        """For each call in a function: the file, the name, and the function of the project that it calls."""
        for file in self._by_function.files(function):
            names, targets = file.column("name"), file.column("target")
            yield from ((file.path, names[at], targets[at]) for at in file.where("function", function))

    def calls_ours(self, function: str) -> bool:
        """Whether a function calls another one of the project."""
        return any(target for _, _, target in self.aims_inside(function))

    def names_inside(self, function: str) -> set[str]:
        """The names of the calls in a function."""
        if function not in self._names:
            self._names[function] = {name for _, name, _ in self.aims_inside(function)}
        return self._names[function]

    def named_inside(self, function: str, is_wanted: Callable[[str], object]) -> list[Call]:
        """The calls in a function whose names are wanted, in order."""
        if not any(is_wanted(name) for name in self.names_inside(function)):
            return []
        return [each for each in self.inside(function) if is_wanted(each.fact.name)]

    def in_file(self, place: Evidence[Any]) -> list[Call]:
        """All calls of the file that something stands in."""
        return self.in_path(place.origin.source)

    def methods_in_file(self, place: Evidence[Any], *names: str) -> list[Call]:
        """The calls in the file of ``place`` whose last part is one of these names."""
        full = [each for name in names for each in self._methods.get(name, ())]
        return list(self._of(full, {place.origin.source}))

    def in_path(self, path: str) -> list[Call]:
        """All calls of a file."""
        return list(self._by_file[path]) if path in self._by_file else []

    def syntax(self, path: str) -> ast.Module | None:
        """A file as Python reads it, for what no fact holds: a long constant, the body of an ``except``."""
        if path not in self._syntax:
            try:
                self._syntax[path] = ast.parse(self._by_file[path].text)
            except (KeyError, SyntaxError, ValueError, RecursionError, MemoryError):
                self._syntax[path] = None
        return self._syntax[path]

    def text(self, path: str) -> str:
        """A file as it is written."""
        return self._by_file[path].text.decode("utf-8", "replace") if path in self._by_file else ""

    def line(self, path: str, number: int) -> bytes:
        """A line of a file as it is written; empty: there is none."""
        if path not in self._lines:
            self._lines[path] = self._by_file[path].text.split(b"\n") if path in self._by_file else []
        lines = self._lines[path]
        return lines[number - 1] if 0 < number <= len(lines) else b""

    def imports(self, place: Evidence[Any], *modules: str) -> bool:
        """Whether the file imports one of these modules, or something of them."""
        return self._imports(place.origin.source, modules)


_OPTIONS = ("args", "opt", "opts", "options", "FLAGS", "config", "cfg", "flags", "hparams")


def _is_option(declared: Call, name: str) -> bool:
    """Whether ``add_argument("--batch-size", ...)`` declares an option of that name."""
    given = [each.value.literal or "" for each in declared.fact.arguments if not each.name]
    return any(literal.strip("'\"").lstrip("-").replace("-", "_") == name for literal in given)


def _beside(name: str, module: str, modules: dict[str, str]) -> str | None:
    """The file of a module that is imported by its bare name, from the folder of the importer or one above."""
    folder = module
    while "." in folder:
        folder = folder.rpartition(".")[0]
        if f"{folder}.{name}" in modules:
            return modules[f"{folder}.{name}"]
    return modules.get(name)


def _can_be_meant(name: str, there: str, importer: str) -> bool:
    """Whether an import can mean that module: a name without dots is one of a folder at or above the importer."""
    return "." in name or importer.startswith(there.removesuffix(name))


def _closure(start: set[str], edges: dict[str, set[str]]) -> set[str]:
    found, pending = set(start), list(start)
    while pending:
        for other in edges.get(pending.pop(), ()):
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


def program(seen: EvidenceSet) -> ProjectFacts:
    """The project, put in order once."""
    return seen.once(ProjectFacts)


def diverging(seen: EvidenceSet, kinds: Iterable[str], hows: Iterable[str]) -> Iterator[Evidence[CodeDiverges]]:
    """The collectives of these kinds on which ranks differ in these ways."""
    kinds, hows = set(kinds), set(hows)
    for each in seen.all(CodeDiverges):
        if each.fact.kind in kinds and each.fact.how in hows:
            yield each


def blocks(call: Call, *kinds: str) -> list[CodeBlock]:
    """The blocks of these kinds around a call, the outermost first."""
    return [each for each in call.fact.within if each.kind in kinds]


def is_on_some_ranks(call: Call) -> bool:
    """Whether a condition around it, in its own function, differs by rank."""
    return any(each.ranked for each in blocks(call, "if", "else"))


def short(name: str) -> str:
    """The name as people write it: the last two parts, without what made the object."""
    return ".".join(name.replace(".__call__", "").split(".")[-2:])


def decided(found: CodeDiverges) -> str:
    """The line of the condition, and the values that decide it, in words."""
    return "; ".join((f"line {found.condition_line}", *found.decided))


def reached_by(found: CodeDiverges) -> str:
    """The way from the line to the collective, in words; empty if it is the line itself."""
    return f", through {' and '.join(found.path)}" if found.path else ""
