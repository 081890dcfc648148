# SPDX-License-Identifier: Apache-2.0
"""For ``keepstep why RUNS/``: the latest failed run is explained, and compared with the runs before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from keepstep.analyze.earlier_runs import Ran, latest_failure, to_compare, told
from keepstep.analyze.why import Explained
from keepstep.base.wording import count
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.model.report import Report
from keepstep.store import run_folders


def runs_in(paths: Sequence[Path]) -> list[run_folders.Listed]:
    """The runs in a folder of runs, or the several runs that were named, the newest last; else none."""
    if len(paths) == 1:
        return run_folders.runs(paths[0]) if run_folders.read_manifest(paths[0]) is None else []
    found = [(path, run_folders.read_manifest(path)) for path in paths]
    listed = [run_folders.Listed(path, manifest) for path, manifest in found if manifest is not None]
    return sorted(listed, key=lambda run: run.manifest.began) if len(listed) == len(paths) else []


def explain_latest(
    listed: Sequence[run_folders.Listed],
    explain: Callable[[Path], Explained],
    explain_earlier: Callable[[Path], Report],
) -> Explained:
    """The report on the latest failure, with what the earlier runs say about it."""
    latest = latest_failure(listed)
    explained = explain(latest.path)
    before = [Ran(run, explain_earlier(run_folders.attempt_to_explain(run.path))) for run in to_compare(listed, latest)]
    if not before:
        return explained
    hosts = frozenset(run.manifest.host for run in listed if run.manifest.host)
    report = explained.report
    looked = Coverage(what=count(len(before), "earlier run"), state=CoverageState.CHECKED)
    return replace(
        explained,
        report=replace(report, earlier=told(Ran(latest, report), before, hosts), coverage=(*report.coverage, looked)),
    )
