# SPDX-License-Identifier: Apache-2.0
"""The units of a project as evidence: facts with file and line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from keepstep.check.code.differences import Divergence
from keepstep.check.code.project import Project
from keepstep.check.code.traces import Tracer
from keepstep.core.evidence import Evidence, Origin
from keepstep.core.facts.base import Fact
from keepstep.core.facts.code import (
    Argument,
    Block,
    CodeAssigned,
    CodeCall,
    CodeDiverges,
    CodeFile,
    CodeFunction,
    CodeHandler,
    Value,
)
from keepstep.parse.code.conditions import is_ranked
from keepstep.parse.code.unit import BlockSeen, Unit, ValueSeen


def evidence_of(project: Project) -> Iterator[Evidence[Fact]]:
    """All facts, file by file. They are not quoted yet: only few of them become findings."""
    given = _given(project)
    for path, unit in project.units.items():
        yield from _File(path, unit, project).evidence(given)
    for function, found in Tracer(project).divergences():
        line = found.condition.line if found.how in ("loop", "sides") else found.issued.line
        line = found.left.line if found.left else line
        yield _at(project.file_of[function.name], line, _diverges(found, function.name, project))


def _given(project: Project) -> dict[str, tuple[str, ...]]:
    """By function: the calls that it is an argument of."""
    found: dict[str, dict[str, None]] = {}
    for unit in project.units.values():
        for call in unit.calls:
            for _, value in call.arguments:
                for made in (value.made, *value.parts):
                    function = project.function(made, unit.module) if made.count(".") else None
                    if function is not None:
                        found.setdefault(function.name, {})[call.name] = None
    return {name: tuple(calls) for name, calls in found.items()}


class _File:
    """One file's facts."""

    def __init__(self, path: str, unit: Unit, project: Project) -> None:
        self.path, self.unit, self.project = path, unit, project
        self._blocks: dict[BlockSeen, Block] = {}
        self._parameters = defaultdict(tuple[str, ...], {each.name: each.parameters for each in unit.functions})

    def evidence(self, given: Mapping[str, tuple[str, ...]]) -> Iterator[Evidence[Fact]]:
        unit = self.unit
        imports = tuple(sorted(set(unit.imports.values())))
        yield self._at(1, CodeFile(module=unit.module, imports=imports, started=unit.started, at_once=unit.at_once))
        for each in unit.functions:
            yield self._at(
                each.line,
                CodeFunction(
                    name=each.name,
                    parameters=each.parameters,
                    decorators=each.decorators,
                    bases=unit.classes.get(each.owner, ()),
                    given_to=given.get(each.name, ()),
                    returns=tuple(dict.fromkeys(given.made for given in each.returns)),
                    end=each.end,
                    decorated=each.decorated,
                ),
            )
        for call in unit.calls:
            target = self.project.function(call.name, unit.module)
            yield self._at(
                call.line,
                CodeCall(
                    name=call.name,
                    function=call.function,
                    on=self._value(call.on) if call.on is not None else None,
                    arguments=tuple(Argument(name=name, value=self._value(value)) for name, value in call.arguments),
                    assigned=call.assigned,
                    within=tuple(self._block(each, call.function) for each in call.within),
                    order=call.line * 1000 + min(call.column, 999),
                    text=call.text,
                    target=target.name if target is not None else "",
                    again=call.again,
                ),
            )
        for assigned in unit.assigned:
            yield self._at(
                assigned.line,
                CodeAssigned(
                    target=assigned.target,
                    value=self._value(assigned.value),
                    function=assigned.function,
                    on=self._value(assigned.on) if assigned.on is not None else None,
                    operator=assigned.operator,
                    within=tuple(self._block(block, assigned.function) for block in assigned.within),
                    order=assigned.line * 1000 + min(assigned.column, 999),
                ),
            )

        for handler in unit.handlers:
            yield self._at(
                handler.line,
                CodeHandler(
                    caught=handler.caught,
                    function=handler.function,
                    tried=handler.tried,
                    raises=handler.raises,
                    within=tuple(self._block(block, handler.function) for block in handler.within),
                ),
            )

    def _at(self, line: int, fact: Fact) -> Evidence[Fact]:
        return _at(self.path, line, fact)

    def _value(self, value: ValueSeen) -> Value:
        return Value(
            text=value.text,
            made=value.made,
            ranked=self.project.is_ranked(value.ranked, self.unit.module),
            literal=value.literal,
            parts=value.parts,
            line=value.line,
            target=self._target(value.made),
        )

    def _target(self, made: str) -> str:
        found = self.project.function(made, self.unit.module) if "." in made else None
        return found.name if found is not None else ""

    def _block(self, block: BlockSeen, function: str) -> Block:
        if block not in self._blocks:
            parameters = self._parameters[function]
            known = self.project.known(block.test, self.unit.module, parameters=parameters, function=function)
            ranked = is_ranked(known)
            self._blocks[block] = Block(
                kind=block.kind, line=block.line, text=block.text, made=block.made, ranked=ranked
            )
        return self._blocks[block]


def _at(path: str, line: int, fact: Fact) -> Evidence[Fact]:
    return Evidence(fact=fact, origin=Origin(source=path, line=line))


def _diverges(found: Divergence, function: str, project: Project) -> CodeDiverges:
    path = tuple(
        f"{_short(name)}() at {project.file_of[name].rpartition('/')[2]}:{line}" for name, line in found.issued.path
    )
    other = found.left.how if found.left else found.instead.name if found.instead else ""
    return CodeDiverges(
        collective=found.issued.name,
        kind=found.issued.kind,
        how=found.how,
        condition=found.condition.text,
        condition_line=found.condition.line,
        path=path,
        other=other,
        other_line=found.issued.line
        if found.left or found.how == "loop"
        else found.instead.line
        if found.instead
        else None,
        function=function,
    )


def _short(name: str) -> str:
    return name.rpartition(".")[2]
