# SPDX-License-Identifier: Apache-2.0
"""The values that decide a condition, as they are written, with the places: the proof that ranks differ on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.check.code.program.project import MOST_HOPS, Project
from keepstep.parse.code.conditions import is_ranked
from keepstep.parse.code.own_values import OWN_DISK
from keepstep.parse.code.text import cut
from keepstep.parse.code.unit import FunctionSeen, ReturnedValue, Span, Test, Unit

_VARIABLE = re.compile(r"(?<![\w.\"'])[A-Za-z_]\w*(?:\.\w+)*(?![\w(\"'])")
MOST = 3
"""Values that a finding names."""


def decided_by(project: Project, function: FunctionSeen, test: Test, text: str, line: int) -> tuple[str, ...]:
    """Such as ``self.lead is `dist.get_rank() == 0` at context.py:7``."""
    path = project.file_of[function.name]
    found = dict.fromkeys(_parts(project, function, test, MOST_HOPS))
    if not found and function.owner:
        attributes = [name.removeprefix("self.") for name in _VARIABLE.findall(text) if name.startswith("self.")]
        sources = [f"{function.owner}.{name}" for name in attributes]
        module = project.module_of(function)
        found = dict.fromkeys(each for source in sources for each in _looked_up(project, source, module, MOST_HOPS))
    if not found:
        found = dict.fromkeys(_assigned(project.units[path], path, function.name, text, line))
    return tuple(found)[:MOST]


def _parts(project: Project, function: FunctionSeen, test: Test, hops: int) -> Iterator[str]:
    if test[0] in ("and", "or"):
        for each in test[1]:
            yield from _parts(project, function, each, hops)
    elif test[0] == "not":
        yield from _parts(project, function, test[1], hops)
    elif test[0] == "param" and isinstance(test[1], int) and test[1] < len(function.parameters):
        yield from _given(project, function.parameters[test[1]], (function.name, test[1]), hops)
    elif test[0] == "call":
        yield from _looked_up(project, test[1], project.module_of(function), hops)


def _looked_up(project: Project, name: str, module: str, hops: int) -> Iterator[str]:
    """What a function returns, or what is kept at a source, where that differs by rank."""
    if hops <= 0 or project.returned(name, module) is None:
        return
    function = project.function(name, module)
    if function is not None:
        unit = project.units[project.file_of[function.name]]
        for returned in function.returns:
            if _says(project, returned, unit, function):
                yield _told(f"{_short(name)}()", returned.where, unit, project.file_of[function.name])
                yield from _further(project, returned.functions, unit.module, hops)
                return
        return
    for entry, unit in project.sources.held_at(name, module):
        _, _, functions, _, _, literal, given, where = entry
        if given is not None:
            yield from _given(project, _short(name), given, hops)
        elif literal is None:
            yield _told(_short(name), where, unit, _path(project, unit))
            yield from _further(project, functions, unit.module, hops)


def _given(project: Project, name: str, given: tuple[str, int], hops: int) -> Iterator[str]:
    """What a function is given for a parameter, where that differs by rank."""
    for caller, test in project.arguments(*given)[:1]:
        if test is None or project.settled(test, caller) is None:
            continue
        unit = project.units[project.file_of[caller.name]]
        where = _argument(project, unit, caller.name, given)
        if where is not None:
            yield _told(name, where, unit, project.file_of[caller.name])
        if hops > 0:
            yield from _parts(project, caller, ("call", test[1], "", 0) if test[0] == "of" else test, hops - 1)


def _argument(project: Project, unit: Unit, caller: str, given: tuple[str, int]) -> Span | None:
    """Where an argument is written."""
    function, number = given
    for row in unit.calls:
        callee = project.function(row[0], unit.module) if row[1] == caller else None
        if callee is None or callee.name != function:
            continue
        for position, (label, _, *where) in enumerate(row[3]):
            if label == callee.parameters[number] or (not label and position == number):
                return where[0], where[1], where[2], where[3]
    return None


def _says(project: Project, returned: ReturnedValue, unit: Unit, function: FunctionSeen) -> bool:
    if returned.rank or returned.ranked:
        return True
    if returned.test is not None:
        return is_ranked(project.known(returned.test, unit.module, parameters=function.parameters))
    return any(project.returned(each, unit.module) is not None for each in returned.functions)


def _further(project: Project, functions: tuple[str, ...], module: str, hops: int) -> Iterator[str]:
    for each in functions:
        yield from _looked_up(project, each, module, hops - 1)


def _assigned(unit: Unit, path: str, function: str, text: str, line: int) -> Iterator[str]:
    """Where the variables of a condition are assigned, above it in the same function."""
    lines = unit.source.split(b"\n")
    names = set(_VARIABLE.findall(text))
    for target, value, inside, _, _, _ in reversed(unit.assigned):
        if inside == function and target[0] < line and (value[0][1] or value[0][0] == OWN_DISK):
            name = cut(lines, target)
            if name in names:
                names.discard(name)
                yield _told(name, value[1:], unit, path)


def _told(name: str, where: Span, unit: Unit, path: str) -> str:
    written = cut(unit.source.split(b"\n"), where)
    return f"`{name}` is `{written}` at {_file(path)}:{where[0]}"


def _path(project: Project, unit: Unit) -> str:
    return next(path for path, each in project.units.items() if each is unit)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _file(path: str) -> str:
    return path.rpartition("/")[2]
