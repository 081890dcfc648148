# SPDX-License-Identifier: Apache-2.0
"""``keepstep why``: explain a run from what it left behind."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepstep.analyze.load_tables import known_with
from keepstep.analyze.why import Explained, explain_live, explain_paths
from keepstep.base.redact import redacted
from keepstep.cli.print_report import print_report, refuse_to_overwrite, say, write_page
from keepstep.errors import UserError
from keepstep.extend import load_extensions
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.model.finding import Confidence, Severity
from keepstep.model.report import Report
from keepstep.rules import builtin_rules
from keepstep.sources.files.left_files import Left, read_standard_input
from keepstep.sources.schedulers.scheduler_answer import JobLeft
from keepstep.store import fallback_folder, run_folders
from keepstep.store.failed_hosts import remember


def why(asked: argparse.Namespace) -> int:
    """Read, diagnose, print. Returns the exit status."""
    if asked.pid and not asked.live:
        raise UserError("--pid needs --live", hint="for example `keepstep why --live --pid 4711`")
    if asked.live and asked.paths:
        raise UserError("--live looks at running processes and takes no PATH")
    if not asked.paths and not asked.live:
        raise UserError("nothing to look at", hint="give a PATH, `-` or --live; `keepstep why --help` explains them")
    for target in (asked.html, asked.bundle):
        refuse_to_overwrite(target, asked.force)
    explained = _explain_all(asked)
    report = redacted(explained.report)
    print_report(report, as_json=asked.json)
    _remember(report)
    if asked.html:
        from keepstep.render.excerpt import surroundings
        from keepstep.render.html import render_html

        write_page(asked.html, render_html(report, surroundings(report, explained.files)))
    if asked.bundle:
        from keepstep.render.bundle import write_bundle

        write_bundle(report, explained.seen, explained.files, Path(asked.bundle), force=asked.force)
        say(f"wrote {asked.bundle}")
    return report.exit_status


def _remember(report: Report) -> None:
    """Note which host failed first, so the next `keepstep check` knows."""
    root = report.root
    if root is None or root.severity is not Severity.FATAL or root.confidence is Confidence.HYPOTHESIS:
        return
    nodes = {each.rank.node for each in root.evidence if each.rank and each.rank.node}
    if len(nodes) == 1:
        remember(nodes.pop() or "", root.cause.value, time.time())


def _ids_in_use() -> Iterator[str]:
    for rule in builtin_rules():
        yield rule.id


def _explain_all(asked: argparse.Namespace) -> Explained:
    """Of several runs, the latest failure and what it has in common with those before it."""
    from keepstep.cli.several_runs import explain_latest, runs_in

    listed = runs_in([_run(path) for path in asked.paths]) if asked.paths and not _is_foreign(asked.paths) else []
    if not listed:
        return _explain(asked)

    def explain(path: Path) -> Explained:
        asked.paths = [str(path)]
        return _explain(asked)

    return explain_latest(listed, explain, lambda path: explain_paths([path], follow=asked.follow).report)


def _is_foreign(paths: list[str]) -> bool:
    return any(path == "-" or path.startswith(("slurm:", "k8s:")) for path in paths)


def _explain(asked: argparse.Namespace) -> Explained:
    own = load_extensions(
        Path(asked.config) if asked.config else None, folders=[Path(each) for each in asked.rules], taken=_ids_in_use()
    )
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
            from keepstep.sources.schedulers.slurm_job import read_slurm_job

            jobs.append(read_slurm_job(path.removeprefix("slurm:")))
        elif path.startswith("k8s:"):
            from keepstep.sources.schedulers.kubernetes_job import read_kubernetes_job

            jobs.append(read_kubernetes_job(path.removeprefix("k8s:")))
        else:
            paths.append(_run_or_path(path))
    for job in jobs:
        paths.extend(job.paths)
        more.extend(job.texts)
    earlier = _earlier_attempts(asked) if len(asked.paths) == 1 else None
    with _Bar() as progress:
        explained = explain_paths(
            paths,
            more=more,
            evidence=[e for job in jobs for e in job.evidence],
            coverage=[*own.coverage, *(c for job in jobs for c in job.coverage), *_damaged_manifests(asked.paths)],
            knowledge=known_with(own.signatures, own.blocks) if own.signatures or own.blocks else None,
            rules=own.rules,
            kernel_log=not asked.no_kernel_log,
            progress=progress,
            patience_s=asked.seconds_per_file,
            follow=asked.follow,
        )
    return replace(explained, report=earlier(explained.report)) if earlier is not None else explained


def _run_or_path(text: str) -> Path:
    """The last attempt of a run of `keepstep run`, named by folder or name; any other path as it is."""
    return run_folders.attempt_to_explain(_run(text))


def _run(text: str) -> Path:
    path = Path(text)
    if not path.exists() and "/" not in text:
        found = run_folders.find(text, fallback_folder.all_runs())
        if found is None and text == "last":
            raise UserError(
                f"there is no run here yet: no run folder in {run_folders.DEFAULT.absolute()}",
                hint="start one with `keepstep run -- CMD`, or give the folder or files that a run wrote",
            )
        path = found or path
    return fallback_folder.of(path) or path


def _damaged_manifests(paths: list[str]) -> Iterator[Coverage]:
    for path in paths:
        why = run_folders.manifest_problem(_run(path))
        if why is not None:
            yield Coverage(what=str(_run(path) / run_folders.MANIFEST), state=CoverageState.UNAVAILABLE, why=why)


def _earlier_attempts(asked: argparse.Namespace) -> Callable[[Report], Report] | None:
    """For a run of several attempts: a function that turns the report on the last one into a report on all."""
    run = _run(asked.paths[0])
    manifest, folders = run_folders.read_manifest(run), run_folders.attempts_to_explain(run)
    if manifest is None or not folders:
        return None
    from keepstep.analyze.report_on_attempts import of_all_attempts

    last = max(folders)
    reports = {
        number: explain_paths([folder], follow=asked.follow).report
        for number, folder in folders.items()
        if number != last
    }
    attempts = [each for each in manifest.attempts if each.number <= last]
    return lambda report: of_all_attempts({**reports, last: report}, attempts)


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
