# SPDX-License-Identifier: Apache-2.0
"""``keepstep check code``: read programs, and name what would go wrong on several ranks."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from keepstep import __version__
from keepstep.base.did_you_mean import did_you_mean
from keepstep.base.redact import redacted
from keepstep.check.code.check_code import CodeChecked, CodeRequest, check_code
from keepstep.check.code.project_settings import settings_near
from keepstep.errors import UserError
from keepstep.rules import code_rules

PROGRESS_FROM = 200
"""Files. Fewer take less time than reading a line about them."""


def check_code_verb(asked: argparse.Namespace) -> int:
    """Read, judge, print. Returns the exit status."""
    if not asked.paths:
        raise UserError("no file or folder is given", hint="for instance: keepstep check code train.py")
    missing = [path for path in asked.paths if not Path(path).exists()]
    if missing:
        raise UserError(f"{missing[0]}: there is no such file or folder")
    settings = settings_near(Path(asked.paths[0]))
    request = CodeRequest(
        paths=tuple(Path(path) for path in asked.paths),
        select=_ids(asked.select) or settings.select,
        ignore=(*_ids(asked.ignore), *settings.ignore),
        exclude=settings.exclude,
        preview=asked.preview or settings.preview,
        follow=asked.follow,
        per_file=settings.per_file,
        baseline=Path(asked.baseline) if asked.baseline else None,
        write_baseline=Path(asked.write_baseline) if asked.write_baseline else None,
        changed_since=asked.diff,
        skipped=settings.skipped,
    )
    checked = check_code(request, _progress if sys.stderr.isatty() else lambda done, of: None)
    _print(checked, "json" if asked.json else asked.format, statistics=asked.statistics)
    status = checked.report.exit_status
    return 0 if asked.exit_zero and status == 1 else status


def _ids(given: Sequence[str]) -> tuple[str, ...]:
    ids = tuple(each.strip().upper() for text in given for each in text.split(",") if each.strip())
    known = [rule.id for rule in code_rules()]
    for each in ids:
        if not any(rule.startswith(each) for rule in known):
            hint = did_you_mean(each, known, "`keepstep rules` lists all rules")
            raise UserError(f"no rule about code begins with {each}", hint=hint)
    return ids


def _print(checked: CodeChecked, form: str, *, statistics: bool) -> None:
    if form == "json":
        from keepstep.render.json import render_json

        print(render_json(checked.report), end="")
    elif form == "sarif":
        from keepstep.render.sarif import render_sarif

        print(render_sarif(checked.report, code_rules(), __version__), end="")
    else:
        from keepstep.render.code_findings import render_code, render_github

        report = redacted(checked.report)
        if form == "github":
            print(render_github(report), end="")
            return
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        width = shutil.get_terminal_size().columns
        print(render_code(report, checked, colour=colour, width=width, statistics=statistics), end="")


def _progress(done: int, of: int) -> None:
    if of >= PROGRESS_FROM:
        print(f"\rread {done} of {of} files", end="\n" if done == of else "", file=sys.stderr, flush=True)
