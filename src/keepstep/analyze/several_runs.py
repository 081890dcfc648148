# SPDX-License-Identifier: Apache-2.0
"""For ``keepstep why RUNS/``: the latest failed run is explained, and compared with the runs before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keepstep.analyze.earlier_runs import Ran, to_compare, told
from keepstep.analyze.why import Explained, explain_paths
from keepstep.base.time_budget import TimeBudget
from keepstep.base.wording import count
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.store import run_folders


def runs_in(paths: Sequence[Path]) -> list[run_folders.Listed]:
    """The runs in a folder of runs, or the several runs that were named, the newest last; else none."""
    if len(paths) == 1:
        return run_folders.runs(paths[0]) if run_folders.read_manifest(paths[0]) is None else []
    found = [(path, run_folders.read_manifest(path)) for path in paths]
    listed = [run_folders.Listed(path, manifest) for path, manifest in found if manifest is not None]
    return sorted(listed, key=lambda run: run.manifest.began) if len(listed) == len(paths) else []


def compared(
    latest: Explained,
    run: run_folders.Listed,
    listed: Sequence[run_folders.Listed],
    *,
    follow: bool,
    budget: TimeBudget | None = None,
) -> Explained:
    """The report on the latest failure, ``run``, with what the earlier runs say about it."""
    before = [
        Ran(each, explain_paths([run_folders.attempt_to_explain(each.path)], follow=follow, budget=budget).report)
        for each in to_compare(listed, run)
    ]
    if not before:
        return latest
    hosts = frozenset(each.manifest.host for each in listed if each.manifest.host)
    report = latest.report
    looked = Coverage(what=count(len(before), "earlier run"), state=CoverageState.CHECKED)
    return replace(
        latest,
        report=replace(report, earlier=told(Ran(run, report), before, hosts), coverage=(*report.coverage, looked)),
    )
