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
from keepstep.base.redact import redact, redacted
from keepstep.base.visible import visible
from keepstep.base.wording import count
from keepstep.check.code.apply_fixes import apply_fixes
from keepstep.check.code.check_code import CodeChecked, CodeRequest, check_code
from keepstep.check.code.files import LARGEST
from keepstep.check.code.project_settings import settings_near
from keepstep.cli.print_report import say
from keepstep.errors import UserError
from keepstep.rules import code_rules

MOST_TURNS = 5
PROGRESS_FROM = 200
"""Files. Fewer take less time than reading a line about them."""


def check_code_verb(asked: argparse.Namespace) -> int:
    """Read, judge, change what may be changed, print. Returns the exit status."""
    given = _given(asked)
    settings = settings_near(Path(asked.stdin_filename or ".") if given else Path(asked.paths[0]))
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
        given=given,
        cache=not asked.no_cache,
    )
    form = "json" if asked.json else asked.format
    tell = _progress if sys.stderr.isatty() else lambda done, of: None
    checked = check_code(request, tell)
    if asked.show_fixes or asked.fix:
        checked = _fixed(asked, request, checked)
    if asked.show_fixes:
        return checked.report.exit_status
    _print(checked, form, statistics=asked.statistics)
    status = checked.report.exit_status
    return 0 if asked.exit_zero and status == 1 else status


def _given(asked: argparse.Namespace) -> tuple[bytes, str | None] | None:
    """The program on standard input, if that is asked for. Raises ``UserError`` for what does not go together."""
    if asked.unsafe_fixes and not (asked.fix or asked.show_fixes):
        raise UserError("--unsafe-fixes says which changes to make, and nothing asks for any", hint="add --fix")
    if (asked.fix or asked.show_fixes) and asked.write_baseline:
        raise UserError("--write-baseline keeps what is found as it is; --fix and --show-fixes change it")
    if "-" in asked.paths:
        if len(asked.paths) > 1:
            raise UserError("- is a program on standard input, and no other path goes with it")
        if asked.fix or asked.show_fixes:
            raise UserError("what comes from standard input is no file that --fix could change")
        if asked.diff:
            raise UserError("--diff compares files, and this is a program on standard input")
        return sys.stdin.buffer.read(LARGEST + 1), asked.stdin_filename
    if asked.stdin_filename:
        raise UserError("--stdin-filename names what comes from standard input", hint="give - as the path")
    if not asked.paths:
        raise UserError("no file or folder is given", hint="for instance: keepstep check code train.py")
    missing = [path for path in asked.paths if not Path(path).exists()]
    if missing:
        raise UserError(f"{missing[0]}: there is no such file or folder")
    return None


def _fixed(asked: argparse.Namespace, request: CodeRequest, checked: CodeChecked) -> CodeChecked:
    """Change the files, say what was done, and check once more; or only show how they would change."""
    for _ in range(MOST_TURNS):  # what stands on one line is changed one after the other
        done = apply_fixes(
            checked.report.findings,
            checked.programs,
            checked.digests,
            unsafe=asked.unsafe_fixes,
            write=not asked.show_fixes,
        )
        for source, why in done.refused:
            say(f"not changed: {source}: {why}")
        if asked.show_fixes:
            print(visible(redact(done.shown)), end="")
            left = len(checked.report.findings) - len(done.made)
            say(f"{count(len(done.made), 'problem')} would be fixed, {left} would remain")
            break
        for each in done.made:
            say(f"fixed: {each.evidence[0].origin}: {each.rule} {each.title}")
        if not done.made:
            break
        checked = check_code(request)
    return checked


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

        print(render_sarif(checked.report, code_rules(), __version__, _site()), end="")
    else:
        from keepstep.render.code_findings import render_code, render_github

        report = redacted(checked.report)
        if form == "github":
            print(render_github(report), end="")
            return
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        width = shutil.get_terminal_size().columns
        print(render_code(report, checked, colour=colour, width=width, statistics=statistics), end="")


def _site() -> str | None:
    """Where the pages of the rules are, if the distribution names a place."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        given = metadata("keepstep").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    pairs = [each.partition(",") for each in given]
    return next((address.strip() for name, _, address in pairs if name.strip().lower() == "documentation"), None)


def _progress(done: int, of: int) -> None:
    if of >= PROGRESS_FROM:
        print(f"\rread {done} of {of} files", end="\n" if done == of else "", file=sys.stderr, flush=True)
