# SPDX-License-Identifier: Apache-2.0
"""The whole of ``keepstep check code``: find the files, read them, ask the rules, quote the lines."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from keepstep.check.code.ask_rules import answered
from keepstep.check.code.cache import Cache
from keepstep.check.code.facts import evidence_of
from keepstep.check.code.files import FoundPrograms, ProgramFile, find, neighbour
from keepstep.check.code.project import Project
from keepstep.check.code.read_program import NotRead, bytes_of, text_of
from keepstep.check.code.reader_pool import read_all
from keepstep.check.code.unit_bytes import BROKEN, unpacked
from keepstep.model.evidence import Coverage, CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Finding
from keepstep.model.report import Report
from keepstep.model.rule import Rule
from keepstep.parse.code.unit import Unit
from keepstep.rules import code_rules
from keepstep.story.engine import diagnose

MOST_NEIGHBOURS = 300
LONGEST_QUOTE = 200


@dataclass(frozen=True, kw_only=True)
class CodeRequest:
    """What to read, and which rules to ask: all that are no preview, or those that are selected, less the ignored."""

    paths: tuple[Path, ...]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Names of files and folders that are not read."""
    preview: bool = False
    whole: bool = False
    """Report on the files that a script imports, too."""
    follow: bool = False
    """Also read what links lead to outside the paths."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Settings that could not be used, and why."""


@dataclass(frozen=True, kw_only=True)
class CodeChecked:
    """The report, and what it is about."""

    report: Report
    files: int
    lines: int
    ignored: int
    """Findings that a comment switched off."""


def check_code(asked: CodeRequest, tell: Callable[[int, int], None] = lambda done, of: None) -> CodeChecked:
    """Read the files and judge them. ``tell`` is called with how many are done, and of how many."""
    with _without_collector():
        return _check_code(asked, tell)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Facts are many, and none of them are in a circle: looking for circles would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check_code(asked: CodeRequest, tell: Callable[[int, int], None]) -> CodeChecked:
    found = find(asked.paths, asked.exclude, follow=asked.follow)
    units, not_read = _read(found, tell, asked.follow)
    wanted = {each.shown for each in found.files if each.asked or asked.whole}
    seen = evidence_of(Project(units), _coverage(asked, found, units, not_read))
    rules = answered(_rules(asked), seen, len(units))
    report = diagnose(seen, rules, lambda _, findings: in_order(findings))
    kept = [each for each in report.findings if each.evidence[0].origin.source in wanted]
    heard = [each for each in kept if not _is_ignored(each, units)]
    paths = {each.shown: each.path for each in found.files}
    report = replace(report, findings=tuple(quoted(heard, paths)))
    lines = sum(unit.functions[0].end for unit in units.values())
    return CodeChecked(report=report, files=len(units), lines=lines, ignored=len(kept) - len(heard))


def _rules(asked: CodeRequest) -> list[Rule]:
    chosen = [each for each in code_rules() if asked.preview or not each.preview]
    if asked.select:
        chosen = [each for each in code_rules() if each.id.startswith(asked.select)]
    return [each for each in chosen if not (asked.ignore and each.id.startswith(asked.ignore))]


def _read(
    found: FoundPrograms, tell: Callable[[int, int], None], follow: bool
) -> tuple[dict[str, Unit], list[tuple[str, str]]]:
    """All files, and those that scripts among them import from beside them."""
    cache = Cache(found.files)
    kept = cache.known()
    units, _ = _unpacked(kept)
    fresh = [each for each in found.files if each.shown not in units]
    ready = len(units)
    results = read_all(fresh, lambda done: tell(ready + done, len(found.files)))
    cache.keep({**kept, **{path: data for path, data in results.items() if isinstance(data, bytes)}})
    more, not_read = _unpacked(results)
    units |= more
    units = {each.shown: units[each.shown] for each in found.files if each.shown in units}
    alone = len(found.files) <= 20
    fresh = list(found.files) if alone else []
    while fresh and len(found.files) < MOST_NEIGHBOURS:
        fresh = _imported(fresh, units, {each.path.resolve() for each in found.files}, follow)
        found.files += fresh
        more, not_read_either = _unpacked(read_all(fresh))
        units |= more
        not_read += not_read_either
    if fresh and _imported(fresh, units, {each.path.resolve() for each in found.files}, follow):
        found.left_out.append(("more of what is imported", f"more than {MOST_NEIGHBOURS} files"))
    shown = {each.shown: number for number, each in enumerate(found.files)}
    return units, sorted(not_read, key=lambda each: shown[each[0]])


def _unpacked(results: Mapping[str, bytes | str]) -> tuple[dict[str, Unit], list[tuple[str, str]]]:
    """The units, and the files that are not read, with the reasons."""
    units: dict[str, Unit] = {}
    not_read: list[tuple[str, str]] = []
    for path, result in results.items():
        if isinstance(result, str):
            not_read.append((path, result))
            continue
        try:
            units[path] = unpacked(result)
        except BROKEN as error:
            not_read.append((path, f"what was read of it cannot be used: {error}"))
    return units, not_read


def _imported(
    files: Iterable[ProgramFile], units: dict[str, Unit], known: set[Path], follow: bool
) -> list[ProgramFile]:
    found: dict[Path, ProgramFile] = {}
    for file in files:
        unit = units.get(file.shown)
        for name in set(unit.imports.values()) if unit is not None else ():
            for module in (name, name.rpartition(".")[0]):
                there = neighbour(module, file, follow=follow) if module else None
                if there is not None and there.path.resolve() not in known:
                    found.setdefault(there.path.resolve(), there)
    return list(found.values())


def _coverage(
    asked: CodeRequest, found: FoundPrograms, units: dict[str, Unit], not_read: list[tuple[str, str]]
) -> Iterable[Coverage]:
    """What was not read may hold anything, so nothing is called healthy then."""
    if units:
        yield Coverage(what="code", state=CoverageState.CHECKED)
    for what, why in (*found.left_out, *not_read):
        yield Coverage(what=what, state=CoverageState.PARTLY if units else CoverageState.UNAVAILABLE, why=why)
    for what, why in asked.skipped:
        yield Coverage(what=what, state=CoverageState.NOT_CHECKED, why=why)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By file and line."""
    return tuple(sorted(findings, key=lambda f: (f.evidence[0].origin.source, f.evidence[0].origin.line or 0, f.rule)))


def _is_ignored(finding: Finding, units: dict[str, Unit]) -> bool:
    origin = finding.evidence[0].origin
    unit = units.get(origin.source)
    ignored = unit.ignored.get(origin.line or 0) if unit is not None else None
    return ignored is not None and (not ignored or finding.rule in ignored)


def quoted(findings: Iterable[Finding], paths: dict[str, Path]) -> Iterable[Finding]:
    """The findings with the lines that they are about."""
    texts: dict[str, list[str]] = {}

    def line_of(each: Evidence[Fact]) -> Evidence[Fact]:
        source, line = each.origin.source, each.origin.line or 0
        if source not in texts:
            try:
                texts[source] = text_of(bytes_of(paths[source]), paths[source]).split("\n")
            except (NotRead, KeyError):
                texts[source] = []
        there = texts[source]
        return replace(each, quote=there[line - 1].strip()[:LONGEST_QUOTE]) if 0 < line <= len(there) else each

    for finding in findings:
        yield replace(finding, evidence=tuple(line_of(each) for each in finding.evidence))
