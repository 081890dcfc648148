# SPDX-License-Identifier: Apache-2.0
"""``keepstep why``: explain a run from what it left behind."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepstep.analyze.question import STANDARD_INPUT, Question, answer
from keepstep.base.redact import redacted
from keepstep.base.time_budget import TimeBudget
from keepstep.cli.print_report import print_report, refuse_to_overwrite, say, write_page
from keepstep.errors import UserError


def why(asked: argparse.Namespace) -> int:
    """Ask, print. Returns the exit status."""
    if asked.pid and not asked.live:
        raise UserError("--pid needs --live", hint="for example `keepstep why --live --pid 4711`")
    if asked.live and asked.paths:
        raise UserError("--live looks at running processes and takes no PATH")
    if not asked.paths and not asked.live:
        raise UserError("nothing to look at", hint="give a PATH, `-` or --live; `keepstep why --help` explains them")
    for target in (asked.html, asked.bundle):
        refuse_to_overwrite(target, asked.force)
    if STANDARD_INPUT in asked.paths and sys.stdin.isatty():
        say("reading from standard input; end with Ctrl-D")
    question = Question(
        words=asked.paths,
        live=asked.live,
        pids=asked.pid,
        config=Path(asked.config) if asked.config else None,
        rules=[Path(each) for each in asked.rules],
        kernel_log=not asked.no_kernel_log,
        patience_s=asked.seconds_per_file,
        follow=asked.follow,
        budget=TimeBudget(asked.seconds),
        exit_statuses=dict(map(_rank_and_status, asked.exit_status)),
    )
    with _Bar() as progress:
        explained = answer(question, progress)
    report = redacted(explained.report)
    print_report(report, as_json=asked.json)
    if asked.html:
        from keepstep.render.excerpt import surroundings
        from keepstep.render.html import render_html

        write_page(asked.html, render_html(report, surroundings(report, explained.files)))
    if asked.bundle:
        from keepstep.render.bundle import write_bundle

        write_bundle(
            report, explained.seen, explained.files, Path(asked.bundle), force=asked.force, budget=question.budget
        )
        late = "; not all of it fits into --seconds, its report lists the rest" if question.budget.is_out else ""
        say(f"wrote {asked.bundle}{late}")
    return report.exit_status


def _rank_and_status(text: str) -> tuple[int, int]:
    rank, _, status = text.partition("=")
    if not (rank.isdecimal() and status.removeprefix("-").isdecimal() and len(text) < 20):
        raise UserError(f"--exit-status takes RANK=STATUS, not {text!r}", hint="for example `--exit-status 0=0`")
    return int(rank), int(status)


class _Bar:
    """A progress bar on a terminal, once the work has taken longer than a second."""

    def __enter__(self) -> Callable[[int, int], None]:
        self._began = time.monotonic()
        self._progress: Any = None
        self._task: Any = None
        return self._tell

    def _tell(self, done: int, total: int) -> None:
        if self._progress is None:
            if not sys.stderr.isatty() or time.monotonic() - self._began < 1 or done >= total:
                return
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

            columns = ("reading", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.start()
            self._task = self._progress.add_task("", total=total)
        self._progress.update(self._task, completed=done)

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()
