# SPDX-License-Identifier: Apache-2.0
"""``keepstep why``: explain what a run left."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepstep.analyze.why import Explained, builtin_rules, explain_live, explain_paths
from keepstep.core.redact import redacted
from keepstep.errors import UserError
from keepstep.extend import load_extensions
from keepstep.parse.knowledge import with_own
from keepstep.render.terminal import render_terminal
from keepstep.sources.files import Left, read_standard_input
from keepstep.sources.job import JobLeft


def why(asked: argparse.Namespace) -> int:
    """Read, diagnose, print. Returns the exit status."""
    if asked.pid and not asked.live:
        raise UserError("--pid goes with --live", hint="e.g. `keepstep why --live --pid 4711`")
    if asked.live and asked.paths:
        raise UserError("--live looks at running processes and takes no PATH")
    if not asked.paths and not asked.live:
        raise UserError("nothing to look at", hint="give a PATH, `-`, or --live; see `keepstep why --help`")
    for target in (asked.html, asked.bundle):
        _refuse_to_overwrite(target, asked.force)
    explained = _explain(asked)
    report = redacted(explained.report)
    if asked.json:
        from keepstep.render.json import render_json

        print(render_json(report), end="")
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(render_terminal(report, colour=colour, width=shutil.get_terminal_size().columns), end="")
    if asked.html:
        from keepstep.render.excerpt import surroundings
        from keepstep.render.html import render_html

        _write(Path(asked.html), render_html(report, surroundings(report, explained.files)))
        print(f"wrote {asked.html}", file=sys.stderr)
    if asked.bundle:
        from keepstep.render.bundle import write_bundle

        write_bundle(report, explained.seen, explained.files, Path(asked.bundle), force=asked.force)
        print(f"wrote {asked.bundle}", file=sys.stderr)
    return report.exit_status


def _explain(asked: argparse.Namespace) -> Explained:
    builtin = builtin_rules()
    own = load_extensions(Path(asked.config) if asked.config else None, taken=(rule.id for rule in builtin))
    if asked.live:
        return explain_live(asked.pid or None, rules=own.rules)
    paths: list[Path] = []
    more: list[Left] = []
    jobs: list[JobLeft] = []
    for path in asked.paths:
        if path == "-":
            if sys.stdin.isatty():
                print("reading from standard input; end with Ctrl-D", file=sys.stderr)
            more.append(read_standard_input())
        elif path.startswith("slurm:"):
            from keepstep.sources.slurm_job import read_slurm_job

            jobs.append(read_slurm_job(path.removeprefix("slurm:")))
        elif path.startswith("k8s:"):
            from keepstep.sources.kubernetes_job import read_kubernetes_job

            jobs.append(read_kubernetes_job(path.removeprefix("k8s:")))
        else:
            paths.append(Path(path))
    for job in jobs:
        paths.extend(job.paths)
        more.extend(job.texts)
    with _Bar() as progress:
        return explain_paths(
            paths,
            more=more,
            evidence=[e for job in jobs for e in job.evidence],
            coverage=[*own.coverage, *(c for job in jobs for c in job.coverage)],
            knowledge=with_own(own.signatures, own.blocks) if own.signatures or own.blocks else None,
            rules=own.rules,
            kernel_log=not asked.no_kernel_log,
            progress=progress,
        )


def _refuse_to_overwrite(target: str | None, force: bool) -> None:
    if target and Path(target).exists() and not force:
        raise UserError(f"{target} exists and is not overwritten", hint="give another name, or --force")
    if target and not Path(target).absolute().parent.is_dir():
        raise UserError(f"the folder of {target} is not there")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


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
