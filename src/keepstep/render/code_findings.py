# SPDX-License-Identifier: Apache-2.0
"""Findings in programs, by file and line: for people, and as GitHub's workflow commands."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from keepstep.base.visible import visible
from keepstep.base.wording import count
from keepstep.model.code_place import CodePlace
from keepstep.model.evidence import Coverage, CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.finding import Finding, Fix, Safety, Severity
from keepstep.model.report import Report

MOST_NOT_READ = 10
_LEVELS = {Severity.FATAL: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_TINTS = {Severity.FATAL: "31;1", Severity.WARNING: "33;1", Severity.NOTE: "36;1"}


class CheckedCode(Protocol):
    """What was read, and what is not reported."""

    @property
    def files(self) -> int: ...
    @property
    def ignored(self) -> int: ...
    @property
    def known(self) -> int: ...
    @property
    def gone(self) -> int: ...
    @property
    def written(self) -> tuple[int, str] | None: ...
    @property
    def useless(self) -> Sequence[tuple[str, str]]: ...


def render_code(
    report: Report, checked: CheckedCode, *, colour: bool = False, width: int = 80, statistics: bool = False
) -> str:
    """One paragraph for each finding, and a last line with the sum."""
    lines = [line for finding in report.findings for line in _finding(finding, colour, width)]
    lines += _not_read(report, width)
    lines += [f"keepstep: rule {each.rule} broke: {visible(each.error)}" for each in report.crashed]
    for place, why in checked.useless:
        lines += textwrap.wrap(visible(f"{place}: {why}"), width, subsequent_indent="  ")
    if statistics and report.findings:
        counts = Counter((each.rule, each.severity.value) for each in report.findings)
        lines += [*(f"{times:6}  {rule} {severity}" for (rule, severity), times in counts.most_common()), ""]
    lines += textwrap.wrap(_sum(report, checked), width, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def render_github(report: Report) -> str:
    """One workflow command for each finding: GitHub shows it at the line. And one for what was not read."""
    unread = "".join(f"::warning title=not read::{_message(f'{each.what}: {each.why}')}\n" for each in _missing(report))
    return unread + "".join(
        f"::{_LEVELS[each.severity]} file={_property(file_of(each.evidence[0].origin.source))},"
        f"line={each.evidence[0].origin.line or 1}{_github_columns(each)},"
        f"title={_property(f'{each.rule} {each.title}')}"
        f"::{_message('; fix: '.join((each.because, *(fix.do for fix in each.fixes))))}\n"
        for each in report.findings
    )


def _github_columns(finding: Finding) -> str:
    """GitHub takes columns only within one line."""
    place = place_of(finding.evidence[0])
    if place.column is None:
        return ""
    is_one = place.end_column is not None and place.end_line == finding.evidence[0].origin.line
    return f",col={place.column}" + (f",endColumn={place.end_column}" if is_one else "")


def place_of(each: Evidence[Fact]) -> CodePlace:
    """Its columns and its way, as far as they are known."""
    return each.fact if isinstance(each.fact, CodePlace) else CodePlace()


def file_of(source: str) -> str:
    """The file of a place; in a notebook, places name the cell, too."""
    file, mark, _ = source.partition(".ipynb:cell ")
    return f"{file}.ipynb" if mark else source


def _finding(finding: Finding, colour: bool, width: int) -> Iterator[str]:
    place, *others = finding.evidence
    tint = _TINTS[finding.severity]
    rule = f"{finding.rule} [{finding.severity.value}]"
    column = place_of(place).column
    head = visible(f"{place.origin}: " if column is None else f"{place.origin}:{column}: ")
    title = textwrap.wrap(visible(finding.title), max(30, width - 4)) or [""]
    is_short = len(head) + len(rule) + 1 + len(title[0]) <= width and len(title) == 1
    rule = f"\x1b[{tint}m{rule}\x1b[0m" if colour else rule
    if is_short:
        yield f"{head}{rule} {title[0]}"
    else:
        yield f"{head}{rule}"
        yield from (f"    {line}" for line in title)
    if place.quote:
        yield f"    > {visible(place.quote)[: width - 6]}"
    for each in others:
        yield visible(f"      {each.origin}: {each.quote}")[:width]
    yield from _wrapped(finding.because, width)
    for fix in finding.fixes:
        way = _by_itself(fix)
        yield from _wrapped(f"fix: {fix.do}{f' ({way} it)' if way else ''}", width)
    yield ""


def _by_itself(fix: Fix) -> str:
    """The words for the option that makes the change; empty: none does."""
    if fix.edit is None or fix.safety is Safety.NEEDS_OWNER:
        return ""
    return "--fix mends" if fix.safety is Safety.SAFE else "--fix --unsafe-fixes mends"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(visible(text), width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _missing(report: Report) -> list[Coverage]:
    return [each for each in report.coverage if each.state is not CoverageState.CHECKED]


def _not_read(report: Report, width: int) -> Iterator[str]:
    missing = _missing(report)
    for each in missing[:MOST_NOT_READ]:
        yield from textwrap.wrap(visible(f"not read: {each.what}: {each.why}"), width, subsequent_indent="  ")
    if len(missing) > MOST_NOT_READ:
        yield f"not read: {len(missing) - MOST_NOT_READ} more"


def _sum(report: Report, checked: CheckedCode) -> str:
    found, files = report.findings, checked.files
    if not files:
        return "nothing was read: there is no program and no settings of a training, or none that could be read"
    if checked.written is not None:
        number, where = checked.written
        return f"wrote {count(number, 'finding')} to {visible(where)}; {count(files, 'file')} read"
    what = count(len(found), "problem") if found else "no problems found"
    told = f"{what} in {count(files, 'file')}"
    if any(each.state is CoverageState.PARTLY for each in report.coverage):
        told += "; not everything was read"
    if checked.ignored:
        told += f"; {checked.ignored} switched off by comments or settings"
    if checked.known:
        told += f"; {checked.known} in the baseline"
    ways = Counter(way for each in found if (way := next(filter(None, map(_by_itself, each.fixes)), "")))
    told += "".join(f"; {way} {times} of them" for way, times in sorted(ways.items()))
    if checked.gone:
        told += f"; {count(checked.gone, 'entry', 'entries')} of the baseline can go"
    return told + ("; `keepstep rules show ID` explains a rule" if found else "")


def _message(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
