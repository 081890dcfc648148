# SPDX-License-Identifier: Apache-2.0
"""The whole of ``keepstep check code``: find the files, read them, ask the rules, quote the lines."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from keepstep.check.code.ask_rules import answered
from keepstep.check.code.baseline import new_findings, write_baseline
from keepstep.check.code.cache import Cache
from keepstep.check.code.changed_lines import changed_since, on_changed_lines
from keepstep.check.code.facts import evidence_of
from keepstep.check.code.files import FoundPrograms, ProgramFile, find, neighbour
from keepstep.check.code.project import Project
from keepstep.check.code.read_program import NotRead, bytes_of, cell_of, left_out_cells, text_of
from keepstep.check.code.reader_pool import read_all
from keepstep.check.code.settings_files import read_settings
from keepstep.check.code.suppressions import Commented, is_switched_off, without_use
from keepstep.check.code.unit_bytes import BROKEN, unpacked
from keepstep.model.evidence import Coverage, CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Finding, Severity
from keepstep.model.report import Report, Verdict
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
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Patterns of paths, and the rules that are not asked about such files."""
    baseline: Path | None = None
    """What the project knows already is not reported again."""
    write_baseline: Path | None = None
    changed_since: str | None = None
    """Only what stands on lines that changed since this commit."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Settings that could not be used, and why."""


@dataclass(frozen=True, kw_only=True)
class CodeChecked:
    """The report, and what it is about."""

    report: Report
    files: int
    lines: int
    ignored: int
    """Findings that a comment or a pattern of paths switched off."""
    known: int = 0
    """Findings that the baseline has."""
    gone: int = 0
    """Entries of the baseline that nothing matches any more."""
    useless: tuple[tuple[str, str], ...] = ()
    """Comments that name no rule or hide nothing, with the words for it."""


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
    changed = changed_since(asked.changed_since, asked.paths[0]) if asked.changed_since is not None else None
    found = find(asked.paths, asked.exclude, follow=asked.follow)
    units, not_read = _read(found, tell, asked.follow)
    settings, unknown = read_settings(found.settings)
    wanted = {each.shown for each in (*found.files, *found.settings) if each.asked or asked.whole}
    seen = evidence_of(
        Project(units),
        _coverage(asked, found, units, [*not_read, *unknown], bool(settings)),
        (each for file in settings.values() for each in file.facts),
    )
    commented: dict[str, Commented] = {**units, **settings}
    chosen = _rules(asked)
    rules = answered(chosen, seen, len(units))
    report = diagnose(seen, rules, lambda _, findings: in_order(findings))
    kept = [each for each in report.findings if each.evidence[0].origin.source in wanted]
    hidden = [each for each in kept if is_switched_off(each, commented)]
    off = {id(each) for each in (*hidden, *(each for each in kept if _is_ignored_there(each, asked.per_file)))}
    every = code_rules()
    useless = without_use(
        {path: each for path, each in commented.items() if path in wanted},
        hidden,
        [each.id for each in chosen],
        [each.id for each in every],
        all_asked=len(chosen) >= len([each for each in every if not each.preview]),
    )
    paths = {each.shown: each.path for each in (*found.files, *found.settings)}
    heard = list(quoted([each for each in kept if id(each) not in off], paths))
    if changed is not None:
        heard = on_changed_lines(heard, changed)
    known = gone = 0
    if asked.baseline is not None:
        fresh, gone = new_findings(heard, asked.baseline)
        known, heard = len(heard) - len(fresh), fresh
    if asked.write_baseline is not None:
        known, heard = write_baseline(heard, asked.write_baseline), []
    report = replace(report, findings=tuple(_by_cell(heard, units)), verdict=_verdict(heard, report))
    lines = sum(unit.functions[0].end for unit in units.values())
    lines += sum(each.source.count(b"\n") for each in settings.values())
    return CodeChecked(
        report=report,
        files=len(units) + len(settings),
        lines=lines,
        ignored=len(off),
        known=known,
        gone=gone if changed is None else 0,
        useless=tuple(useless),
    )


def _verdict(findings: Iterable[Finding], report: Report) -> Verdict:
    """By what is reported: what was switched off is known to the user, and a note is a finding, too."""
    severities = {each.severity for each in findings}
    if severities:
        return Verdict.FAILED if Severity.FATAL in severities else Verdict.DEGRADED
    states = {each.state for each in report.coverage}
    missing = {CoverageState.PARTLY, CoverageState.UNAVAILABLE} & states or report.crashed
    return Verdict.UNKNOWN if missing or CoverageState.CHECKED not in states else Verdict.HEALTHY


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
    asked: CodeRequest,
    found: FoundPrograms,
    units: dict[str, Unit],
    not_read: list[tuple[str, str]],
    has_settings: bool,
) -> Iterable[Coverage]:
    """What was not read may hold anything, so nothing is called healthy then."""
    any_read = bool(units) or has_settings
    if any_read:
        yield Coverage(what="code", state=CoverageState.CHECKED)
    for what, why in (*found.left_out, *not_read):
        yield Coverage(what=what, state=CoverageState.PARTLY if any_read else CoverageState.UNAVAILABLE, why=why)
    for what, unit in units.items():
        if what.endswith(".ipynb") and (cells := left_out_cells(unit.source)):
            yield Coverage(what=what, state=CoverageState.PARTLY, why=cells)
    for what, why in asked.skipped:
        yield Coverage(what=what, state=CoverageState.NOT_CHECKED, why=why)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By file and line."""
    return tuple(sorted(findings, key=lambda f: (f.evidence[0].origin.source, f.evidence[0].origin.line or 0, f.rule)))


def _is_ignored_there(finding: Finding, per_file: Iterable[tuple[str, tuple[str, ...]]]) -> bool:
    path = finding.evidence[0].origin.source
    return any(finding.rule.startswith(rules) and fnmatch(path, pattern) for pattern, rules in per_file)


def _by_cell(findings: Iterable[Finding], units: Mapping[str, Unit]) -> Iterator[Finding]:
    """In a notebook, people look for a cell and a line in it."""
    texts: dict[str, list[str]] = {}

    def placed(each: Evidence[Fact]) -> Evidence[Fact]:
        source = each.origin.source
        if not source.endswith(".ipynb") or source not in units:
            return each
        lines = texts.setdefault(source, units[source].source.decode("utf-8", "replace").split("\n"))
        cell = cell_of(lines, each.origin.line or 0)
        if cell is None:
            return each
        return replace(each, origin=replace(each.origin, source=f"{source}:cell {cell[0]}", line=cell[1]))

    for finding in findings:
        yield replace(finding, evidence=tuple(placed(each) for each in finding.evidence))


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
