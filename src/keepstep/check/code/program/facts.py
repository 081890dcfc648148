# SPDX-License-Identifier: Apache-2.0
"""The units of a project as evidence: facts with file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from keepstep.check.code.program.decided_by import decided_by
from keepstep.check.code.program.differences import Divergence
from keepstep.check.code.program.project import Project
from keepstep.check.code.program.traces import Tracer
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.code import (
    Argument,
    CodeAssigned,
    CodeBlock,
    CodeCall,
    CodeDiverges,
    CodeFile,
    CodeFunction,
    CodeHandler,
    Value,
)
from keepstep.model.lazy_evidence import Columns, MadeLater, MadeTogether
from keepstep.parse.code.conditions import is_ranked
from keepstep.parse.code.scope import may_be_ours
from keepstep.parse.code.text import cut
from keepstep.parse.code.unit import AssignedSeen, CallSeen, Span, Unit, ValueSeen, Within
from keepstep.parse.code.values import is_followed

_set = object.__setattr__


def evidence_of(project: Project, settings: Iterable[Evidence[Fact]] = ()) -> EvidenceSet:
    """All facts, file by file. They are not quoted yet: only few of them become findings."""
    given = _given(project)
    files = [_File(path, unit, project) for path, unit in project.units.items()]
    return EvidenceSet(
        items=(*(each for file in files for each in file.evidence(given)), *settings),
        later={
            CodeCall: tuple(file.calls() for file in files),
            CodeAssigned: tuple(file.assigned() for file in files),
            CodeDiverges: (MadeTogether(lambda: list(_divergences(project))),),
        },
    )


def _divergences(project: Project) -> Iterator[Evidence[Fact]]:
    for function, found in Tracer(project).divergences():
        line = found.condition.line if found.how in ("loop", "sides") else found.issued.line
        line = found.left.line if found.left else line
        yield _at(project.file_of[function.name], line, _diverges(found, function.name, project))


def _given(project: Project) -> dict[str, tuple[str, ...]]:
    """By function: the calls that it is an argument of."""
    found: dict[str, dict[str, None]] = {}
    for unit in project.units.values():
        meant: dict[int, list[str]] = {}
        for call in unit.calls:
            for argument in call[3]:
                value = argument[1]
                if id(value) not in meant:
                    functions = [project.function(name, unit.module) for name in (value[0], *value[3])]
                    meant[id(value)] = [each.name for each in functions if each is not None]
                for name in meant[id(value)]:
                    found.setdefault(name, {})[call[0]] = None
    return {name: tuple(calls) for name, calls in found.items()}


class CallLater(CodeCall):
    """A call of which only its name and place are known at once; the rest is found out when it is asked for."""

    __slots__ = ("_file", "_row")
    _LATER = ("on", "arguments", "assigned", "within", "text", "target", "span")

    def __init__(self, file: _File, row: CallSeen) -> None:
        line, column = row[6], row[7]
        _set(self, "_file", file)
        _set(self, "_row", row)
        _set(self, "name", file.full_name(row[0]))
        _set(self, "function", row[1])
        _set(self, "again", row[9])
        _set(self, "order", line * 1000 + (column if column < 1000 else 999))
        _set(self, "rank", None)

    def __getattr__(self, name: str) -> Any:
        if name not in self._LATER:
            raise AttributeError(name)
        value = self._file.of_call(self._row, name)
        _set(self, name, value)
        return value


class AssignedLater(CodeAssigned):
    """The same for an assignment."""

    __slots__ = ("_file", "_row")
    _LATER = ("target", "value", "on", "within")

    def __init__(self, file: _File, row: AssignedSeen) -> None:
        line, column = row[0][:2]
        _set(self, "_file", file)
        _set(self, "_row", row)
        _set(self, "function", row[2])
        _set(self, "operator", row[4])
        _set(self, "order", line * 1000 + (column if column < 1000 else 999))
        _set(self, "rank", None)

    def __getattr__(self, name: str) -> Any:
        if name not in self._LATER:
            raise AttributeError(name)
        value = self._file.of_assigned(self._row, name)
        _set(self, name, value)
        return value


class _File:
    """One file's facts."""

    def __init__(self, path: str, unit: Unit, project: Project) -> None:
        self.path, self.unit, self.project = path, unit, project
        self._blocks: dict[int, CodeBlock] = {}
        self._withins: dict[Within, tuple[CodeBlock, ...]] = {}
        self._values: dict[int, tuple[str, bool, str, str | None]] = {}
        self._names: dict[str, str] = {}
        self._origins: dict[str, str] = {}

    @cached_property
    def _lines(self) -> list[bytes]:
        return self.unit.source.split(b"\n")

    @cached_property
    def _parameters(self) -> dict[str, tuple[str, ...]]:
        return {each.name: each.parameters for each in self.unit.functions}

    def evidence(self, given: Mapping[str, tuple[str, ...]]) -> Iterator[Evidence[Fact]]:
        """What is not many: the file itself, its functions, its handlers."""
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
        for caught, function, tried, raises, within, line in unit.handlers:
            around = self._within(within, function)
            fact = CodeHandler(caught=caught, function=function, tried=tried, raises=raises, within=around)
            yield self._at(line, fact)

    def calls(self) -> MadeLater[CodeCall]:
        rows = self.unit.calls
        columns: Columns = {
            "name": lambda: [self.full_name(row[0]) for row in rows],
            "function": lambda: [row[1] for row in rows],
            "target": lambda: [self._target(self.full_name(row[0])) for row in rows],
            "lines": lambda: [(row[8][0], row[8][2]) for row in rows],
            "within": lambda: [self._within(row[5], row[1]) for row in rows],
        }
        return MadeLater(self.path, self.unit.source, len(rows), self._call, columns)

    def assigned(self) -> MadeLater[CodeAssigned]:
        rows = self.unit.assigned
        columns: Columns = {
            "function": lambda: [row[2] for row in rows],
            "target": lambda: [self.text(row[0]) for row in rows],
            "lines": lambda: [(min(row[0][0], row[1][1]), max(row[0][2], row[1][3])) for row in rows],
            "on": lambda: [self._made(row[3][0][0]) if row[3] is not None else "" for row in rows],
            "operator": lambda: [row[4] for row in rows],
        }
        return MadeLater(self.path, self.unit.source, len(rows), self._assigned, columns)

    def _call(self, number: int) -> Evidence[Fact]:
        return self._at(self.unit.calls[number][6], CallLater(self, self.unit.calls[number]))

    def _assigned(self, number: int) -> Evidence[Fact]:
        return self._at(self.unit.assigned[number][0][0], AssignedLater(self, self.unit.assigned[number]))

    def of_call(self, row: CallSeen, name: str) -> object:
        """What a call has under that name."""
        if name == "text":
            return self.text(row[8])
        if name == "span":
            return row[8]
        if name == "arguments":
            return tuple([Argument(name=given[0], value=self._value(*given[1:])) for given in row[3]])
        if name == "on":
            return self._object(*row[2]) if row[2] is not None else None
        if name == "assigned":
            return self.text(row[4]) if row[4] is not None else ""
        return self._target(self.full_name(row[0])) if name == "target" else self._within(row[5], row[1])

    def of_assigned(self, row: AssignedSeen, name: str) -> object:
        """The same for an assignment."""
        if name == "value":
            return self._value(*row[1])
        if name == "on":
            return self._value(*row[3]) if row[3] is not None else None
        return self.text(row[0]) if name == "target" else self._within(row[5], row[2])

    def _at(self, line: int, fact: Fact) -> Evidence[Fact]:
        return _at(self.path, line, fact)

    def text(self, span: Span) -> str:
        return cut(self._lines, span, is_long=span in self.unit.tables)

    def _object(self, kept: ValueSeen, *span: int) -> Value:
        """That of a method. ``cls`` is shown as ``self``: both stand for the class that the method is in."""
        found = self._value(kept, *span)
        if found.text != "cls":
            return found
        return Value(text="self", made=found.made, line=found.line, target=found.target)

    def _value(self, kept: ValueSeen, line: int, column: int, last: int, end: int) -> Value:
        if id(kept) not in self._values:
            made, target = self._made(kept[0]), self._target(self.full_name(kept[0]))
            differs = self.project.is_ranked(kept[1], self.unit.module)
            self._values[id(kept)] = (made, differs, target, self._literal(kept))
        made, differs, target, literal = self._values[id(kept)]
        span = (line, column, last, end)
        return Value(
            text=self.text(span),
            made=made,
            ranked=differs,
            literal=literal,
            parts=tuple([self._made(each) for each in kept[3]]),
            line=line,
            target=target,
            span=span,
        )

    def full_name(self, name: str) -> str:
        """The name of a method, with what its object is in its place, wherever that was made or is kept."""
        if name not in self._names:
            self._names[name] = self._of_source(name) if name.startswith("?") else self._of_result(name)
        return self._names[name]

    def _of_source(self, name: str) -> str:
        if name[1:2] in ("", "."):
            return name
        source, _, rest = name[1:].partition("?")
        made = self.project.sources.object_at(source, self.unit.module)
        if source.endswith(")") and not is_followed(made):
            made = ""  # what a parameter is, is for the caller to say: a function may be meant for others, too
        unknown = "?" + rest if rest else ""
        if rest == ".__call__":
            unknown = "?" if source.endswith(")") else f"?.{source.rpartition('.')[2]}"
        return f"{made}{rest}" if made else unknown

    def _of_result(self, name: str) -> str:
        owner, _, method = name.rpartition(".")
        made = self.project.sources.object_at(owner, self.unit.module) if "." in owner and may_be_ours(owner) else ""
        return f"{made}.{method}" if is_followed(made) else name

    def _made(self, name: str) -> str:
        """Where a value comes from, through the functions of the project that hand it on."""
        full = self.full_name(name)
        if full not in self._origins:
            made = self.project.sources.object_at(full, self.unit.module) if "." in full and may_be_ours(full) else ""
            self._origins[full] = made if is_followed(made) else full
        return self._origins[full]

    def _literal(self, kept: ValueSeen) -> str | None:
        """The constant that a value is, also where it is kept somewhere else."""
        made, ranked, literal, _ = kept
        if literal is not None:
            return literal
        if made.startswith("?") and made.endswith("?"):
            return self.project.sources.literal_at(made[1:-1], self.unit.module)
        if isinstance(ranked, bool) or len(ranked) != 1 or _short(ranked[0]) != _short(made):
            return None
        return self.project.sources.literal_at(ranked[0], self.unit.module)

    def _target(self, made: str) -> str:
        found = self.project.function(made, self.unit.module)
        return found.name if found is not None else ""

    def _within(self, within: Within, function: str) -> tuple[CodeBlock, ...]:
        if within not in self._withins:
            self._withins[within] = tuple(self._block(each, function) for each in within)
        return self._withins[within]

    def _block(self, number: int, function: str) -> CodeBlock:
        if number not in self._blocks:
            kind, line, text, made, test = self.unit.blocks[number]
            parameters = self._parameters.get(function, ())
            known = self.project.known(test, self.unit.module, parameters=parameters, function=function)
            ranked = is_ranked(known)
            self._blocks[number] = CodeBlock(kind=kind, line=line, text=text, made=self._made(made), ranked=ranked)
        return self._blocks[number]


def _at(path: str, line: int, fact: Fact) -> Evidence[Fact]:
    return Evidence(fact=fact, origin=Origin(source=path, line=line))


def _diverges(found: Divergence, function: str, project: Project) -> CodeDiverges:
    path = tuple(
        f"{_short(name)}() at {project.file_of[name].rpartition('/')[2]}:{line}" for name, line in found.issued.path
    )
    condition = found.condition
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
        decided=decided_by(project, project.functions[function], condition.test, condition.text, condition.line),
        places=tuple((project.file_of[name], line) for name, line in found.issued.path),
    )


def _short(name: str) -> str:
    return name.rpartition(".")[2]
