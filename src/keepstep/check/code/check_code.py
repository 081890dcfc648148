# SPDX-License-Identifier: Apache-2.0
"""The whole of ``keepstep check code``: find the files, read them, ask the rules, quote the lines."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from keepstep.check.code.baseline import new_findings, write_baseline
from keepstep.check.code.cache import Cache
from keepstep.check.code.changed_lines import changed_since, on_changed_lines
from keepstep.check.code.files import SETTINGS, FoundPrograms, ProgramFile, find, given_program, neighbour
from keepstep.check.code.judge import judged
from keepstep.check.code.plain_findings import finding_of
from keepstep.check.code.program.islands import islands
from keepstep.check.code.reader_pool import read_all
from keepstep.check.code.summary import Summary, imports_of
from keepstep.check.code.suppressions import is_switched_off, without_use
from keepstep.check.code.unit_bytes import BROKEN, OnlyPlain
from keepstep.model.code_place import CodePlace
from keepstep.model.evidence import Coverage, CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Finding, Severity
from keepstep.model.report import Report, RuleCrash, Verdict
from keepstep.model.rule import Rule
from keepstep.rules import code_rules

MOST_NEIGHBOURS = 300


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
    given: tuple[bytes, str | None] | None = None
    """A program from standard input instead of the paths, and the name of its file."""
    cache: bool = True
    """Believe what is known of files that did not change, and keep it."""


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
    written: tuple[int, str] | None = None
    """How many findings were written to a new baseline, and to which."""
    useless: tuple[tuple[str, str], ...] = ()
    """Comments that name no rule or hide nothing, with the words for it."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """By file as shown: that of the content that was judged."""
    programs: Mapping[str, ProgramFile] = field(default_factory=dict)


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
    found = given_program(*asked.given) if asked.given else find(asked.paths, asked.exclude, follow=asked.follow)
    chosen = _rules(asked)
    read = _Reading(found, Cache(found.every, [each.id for each in chosen], used=asked.cache), tell, asked.follow)
    findings, crashed = read.judged(chosen)
    report = Report(
        verdict=Verdict.UNKNOWN,
        findings=in_order(findings),
        coverage=tuple(_coverage(asked, found, read)),
        crashed=crashed,
    )
    wanted = {each.shown for each in found.every if each.asked or asked.whole}
    kept = [each for each in report.findings if each.evidence[0].origin.source in wanted]
    hidden = [each for each in kept if is_switched_off(each, read.files)]
    off = {id(each) for each in (*hidden, *(each for each in kept if _is_ignored_there(each, asked.per_file)))}
    every = code_rules()
    useless = without_use(
        {path: file for path, file in read.files.items() if path in wanted},
        hidden,
        [each.id for each in chosen],
        [each.id for each in every],
        all_asked=len(chosen) >= len([each for each in every if not each.preview]),
    )
    heard = [each for each in kept if id(each) not in off]
    if changed is not None:
        heard = on_changed_lines(heard, changed)
    known = gone = 0
    if asked.baseline is not None:
        fresh, gone = new_findings(heard, asked.baseline)
        known, heard = len(heard) - len(fresh), fresh
    written = None
    if asked.write_baseline is not None:
        written = write_baseline(heard, asked.write_baseline), str(asked.write_baseline)
        heard = []
    report = replace(report, findings=tuple(_by_cell(heard)), verdict=_verdict(heard, report))
    return CodeChecked(
        report=report,
        files=len(read.files),
        lines=sum(file.lines for file in read.files.values()),
        ignored=len(off),
        known=known,
        gone=gone if changed is None else 0,
        written=written,
        useless=tuple(useless),
        digests={path: file.digest for path, file in read.files.items()},
        programs={each.shown: each for each in found.every},
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


class _Reading:
    """The files of a project, and those that scripts among them import from beside them."""

    def __init__(self, found: FoundPrograms, cache: Cache, tell: Callable[[int, int], None], follow: bool) -> None:
        self._found, self._cache, self._follow = found, cache, follow
        self._units: dict[str, bytes] = {}
        """Those that were read now."""
        self.files: dict[str, Summary] = cache.known()
        self._why = cache.not_read()
        ready = len(self.files) + len(self._why)
        fresh = [each for each in found.every if each.shown not in self.files and each.shown not in self._why]
        self._read(fresh, lambda done: tell(ready + done, len(found.every)))
        if len(found.files) <= 20:
            self._read_neighbours()
        self.files = {each.shown: self.files[each.shown] for each in found.every if each.shown in self.files}
        reasons = [(each, self._why[each.shown]) for each in found.every if each.shown in self._why]
        self.not_read = [(file.shown, why) for file, why in reasons if _is_said(file, why)]

    def _read(self, files: list[ProgramFile], tell: Callable[[int], None] = lambda done: None) -> None:
        for path, result in read_all(files, tell).items():
            if isinstance(result, str):
                self._why[path] = result
            else:
                self.files[path], self._units[path] = result

    def _read_neighbours(self) -> None:
        fresh = list(self._found.files)
        while fresh and len(self._found.files) < MOST_NEIGHBOURS:
            fresh = self._imported(fresh)
            self._found.files += fresh
            self._read(fresh)
        if fresh and self._imported(fresh):
            self._found.left_out.append(("more of what is imported", f"more than {MOST_NEIGHBOURS} files"))

    def _imported(self, files: Iterable[ProgramFile]) -> list[ProgramFile]:
        known = {each.path.resolve() for each in self._found.files}
        found: dict[Path, ProgramFile] = {}
        for file in files:
            for name in self.files[file.shown].names if file.shown in self.files else ():
                for module in (name, name.rpartition(".")[0]):
                    there = neighbour(module, file, follow=self._follow) if module else None
                    if there is not None and there.path.resolve() not in known:
                        found.setdefault(there.path.resolve(), there)
        return list(found.values())

    def judged(self, rules: Sequence[Rule]) -> tuple[list[Finding], tuple[RuleCrash, ...]]:
        """What the rules find. Islands that are as they were are not judged again."""
        every = [tuple(each) for each in islands(imports_of(self.files))]
        answers = {each: answer for each in every if (answer := self._cache.answer(each, self.files)) is not None}
        try:
            parts = [_answered(each) for each in answers.values()]
        except BROKEN:  # as if nothing were known
            answers, parts = {}, []
        again = [each for each in every if each not in answers]
        if again:
            units = self._all_units(again)
            settings = {path for path, file in self.files.items() if file.module == SETTINGS}
            try:
                fresh = dict(judged(again, units, settings, rules))
            except BROKEN:  # what was kept is no unit
                self._read([each for each in self._found.every if any(each.shown in group for group in again)])
                fresh = dict(judged(again, self._units, settings, rules))
            answers |= {again[number]: answer for number, answer in fresh.items()}
            parts += [_answered(answer) for answer in fresh.values()]
        self._cache.keep(self.files, self._why, self._units, answers)
        crashes = dict.fromkeys(crash for _, crashed in parts for crash in crashed)
        return [each for findings, _ in parts for each in findings], tuple(crashes)

    def _all_units(self, groups: Iterable[tuple[str, ...]]) -> dict[str, bytes]:
        """Those of the groups. What is not kept any more is read again."""
        units = dict(self._units)
        needed = [path for group in groups for path in group if path not in units]
        if needed:
            kept = self._cache.units(self.files[path].digest for path in needed)
            units |= {path: kept[digest] for path in needed if (digest := self.files[path].digest) in kept}
            missing = {path for path in needed if path not in units}
            self._read([each for each in self._found.every if each.shown in missing])
            units |= self._units
        return units


def _is_said(file: ProgramFile, why: str) -> bool:
    """Most JSON, YAML and scripts are something else: that is no news unless the user named them."""
    return file.module != SETTINGS or file.named or why.startswith("keepstep itself")


def _answered(answer: bytes) -> tuple[list[Finding], list[RuleCrash]]:
    findings, crashed = OnlyPlain(io.BytesIO(answer)).load()
    return [finding_of(each) for each in findings], [RuleCrash(rule=rule, error=error) for rule, error in crashed]


def _coverage(asked: CodeRequest, found: FoundPrograms, read: _Reading) -> Iterable[Coverage]:
    """What was not read may hold anything, so nothing is called healthy then."""
    if read.files:
        yield Coverage(what="code", state=CoverageState.CHECKED)
    for what, why in (*found.left_out, *read.not_read):
        yield Coverage(what=what, state=CoverageState.PARTLY if read.files else CoverageState.UNAVAILABLE, why=why)
    for what, file in read.files.items():
        if file.left_out:
            yield Coverage(what=what, state=CoverageState.PARTLY, why=file.left_out)
    for what, why in asked.skipped:
        yield Coverage(what=what, state=CoverageState.NOT_CHECKED, why=why)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By file and line."""
    return tuple(sorted(findings, key=lambda f: (f.evidence[0].origin.source, f.evidence[0].origin.line or 0, f.rule)))


def _is_ignored_there(finding: Finding, per_file: Iterable[tuple[str, tuple[str, ...]]]) -> bool:
    path = finding.evidence[0].origin.source
    return any(finding.rule.startswith(rules) and fnmatch(path, pattern) for pattern, rules in per_file)


def _by_cell(findings: Iterable[Finding]) -> Iterator[Finding]:
    """In a notebook, people look for a cell and a line in it."""
    for finding in findings:
        yield replace(finding, evidence=tuple(_in_cell(each) for each in finding.evidence))


def _in_cell(each: Evidence[Fact]) -> Evidence[Fact]:
    cell = each.fact.cell if isinstance(each.fact, CodePlace) else None
    if cell is None:
        return each
    return replace(each, origin=replace(each.origin, source=f"{each.origin.source}:cell {cell[0]}", line=cell[1]))
