# SPDX-License-Identifier: Apache-2.0
"""Findings as plain things, on their way between processes and in the cache: making them again runs no code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keepstep.check.code.read_program import cell_of
from keepstep.model.cause import Cause
from keepstep.model.code_place import CodePlace
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.code import CodeAssigned, CodeCall, CodeDiverges
from keepstep.model.finding import Confidence, Edit, Finding, Fix, Safety, Severity, Standing

LONGEST_QUOTE = 200
Plain = tuple[Any, ...]


class Places:
    """Where the evidence of findings stands in the text of its files."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._sources = sources
        self._lines: dict[str, list[str]] = {}

    def plain(self, finding: Finding) -> Plain:
        return (
            finding.rule,
            finding.cause.value,
            finding.title,
            finding.because,
            [self._evidence(each) for each in finding.evidence],
            finding.confidence.value,
            finding.severity.value,
            finding.standing.value,
            [self._fix(each) for each in finding.fixes],
            [each.value for each in finding.explains],
        )

    def _evidence(self, each: Evidence[Fact]) -> Plain:
        source, line = each.origin.source, each.origin.line or 0
        text = self._text(source, line)
        column, last, end = self._columns(each.fact, source, line)
        fact = each.fact
        diverges = isinstance(fact, CodeDiverges)
        lines = [at for at in (fact.condition_line, fact.other_line) if at is not None] if diverges else []  # type: ignore[attr-defined]
        path = [(*place, self._text(*place).strip()[:LONGEST_QUOTE]) for place in fact.places] if diverges else []  # type: ignore[attr-defined]
        cell = cell_of(self._of(source), line) if source.endswith(".ipynb") else None
        return source, each.origin.line, text.strip()[:LONGEST_QUOTE], column, last, end, lines, path, cell

    def _columns(self, fact: Fact, source: str, line: int) -> tuple[int | None, int | None, int | None]:
        """Where the call or the assigned value begins and ends; of another line, where its text begins."""
        if isinstance(fact, CodeCall):
            first, column, last, end = fact.span
            if first == line:
                return self._characters(source, line, column), last, self._characters(source, last, end)
        elif isinstance(fact, CodeAssigned) and fact.value.span[0] == line:
            last, end = fact.value.span[2:]
            return self._indent(source, line), last, self._characters(source, last, end)
        return self._indent(source, line), None, None

    def _characters(self, source: str, line: int, column: int) -> int:
        """Python counts bytes from 0, people and editors characters from 1."""
        return len(self._text(source, line).encode("utf-8", "replace")[:column].decode("utf-8", "replace")) + 1

    def _indent(self, source: str, line: int) -> int | None:
        text = self._text(source, line)
        return len(text) - len(text.lstrip()) + 1 if text.strip() else None

    def _fix(self, fix: Fix) -> Plain:
        edit = fix.edit if fix.edit is not None and not fix.edit.source.endswith(".ipynb") else None
        plain = (edit.source, edit.line, edit.column, edit.end, edit.text) if edit is not None else None
        return fix.do, fix.command, fix.code, plain, fix.safety.value

    def _text(self, source: str, line: int) -> str:
        lines = self._of(source)
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def _of(self, source: str) -> list[str]:
        if source not in self._lines:
            self._lines[source] = self._sources.get(source, b"").decode("utf-8", "replace").split("\n")
        return self._lines[source]


def finding_of(plain: Plain) -> Finding:
    """The finding again. Its evidence is places."""
    rule, cause, title, because, evidence, confidence, severity, standing, fixes, explains = plain
    return Finding(
        rule=rule,
        cause=Cause(cause),
        title=title,
        because=because,
        evidence=tuple(_evidence_of(each) for each in evidence),
        ranks=(),
        confidence=Confidence(confidence),
        severity=Severity(severity),
        standing=Standing(standing),
        fixes=tuple(_fix_of(each) for each in fixes),
        explains=tuple(Cause(each) for each in explains),
    )


def _evidence_of(plain: Plain) -> Evidence[Fact]:
    source, line, quote, column, last, end, lines, path, cell = plain
    place = CodePlace(
        column=column,
        end_line=last,
        end_column=end,
        lines=tuple(lines),
        path=tuple(tuple(each) for each in path),
        cell=tuple(cell) if cell else None,
    )
    return Evidence(fact=place, origin=Origin(source=source, line=line), quote=quote)


def _fix_of(plain: Plain) -> Fix:
    do, command, code, edit, safety = plain
    made = None
    if edit is not None:
        source, line, column, end, text = edit
        made = Edit(source=source, line=line, column=column, end=end, text=text)
    return Fix(do=do, command=command, code=code, edit=made, safety=Safety(safety))
