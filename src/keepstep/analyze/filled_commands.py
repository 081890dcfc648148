# SPDX-License-Identifier: Apache-2.0
"""Commands of fixes that read a run's own files, with the place of those files: rules do not know where it is."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable
from dataclasses import replace
from pathlib import Path

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.finding import RUN_FOLDER, Finding, Fix
from keepstep.model.report import Report

_LOOKS_AT = lazy_pattern(r"\b(?:pystack remote|py-spy dump|gdb|strace|kill)\b[^;|&\n]{0,40}? (?P<pid>\d{1,8})(?=\s|$)")


def with_places(report: Report, paths: Iterable[Path]) -> Report:
    """``paths``: where the evidence was read."""
    where = " ".join(shlex.quote(str(path)) for path in dict.fromkeys(paths))
    return replace(report, findings=tuple(_placed(each, where) for each in report.findings)) if where else report


def without_the_dead(report: Report, living: Container[int | None]) -> Report:
    """Without commands that look at a process, or send it a signal, once it is gone. ``living``: those that are not."""
    return replace(
        report,
        findings=tuple(
            replace(each, fixes=tuple(fix for fix in each.fixes if _is_there(fix, living))) for each in report.findings
        ),
    )


def _is_there(fix: Fix, living: Container[int | None]) -> bool:
    named = _LOOKS_AT.search(fix.command or "")
    return named is None or int(named["pid"]) in living


def _placed(finding: Finding, where: str) -> Finding:
    if not any(fix.command is not None and RUN_FOLDER in fix.command for fix in finding.fixes):
        return finding
    return replace(finding, fixes=tuple(_fix(each, where) for each in finding.fixes))


def _fix(fix: Fix, where: str) -> Fix:
    return replace(fix, command=fix.command.replace(RUN_FOLDER, where)) if fix.command is not None else fix
