# SPDX-License-Identifier: Apache-2.0
"""For ``keepstep why .keepstep/guard/*``: folders of several jobs, each explained for itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keepstep.analyze.why import Explained
from keepstep.base.wording import count
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.model.finding import Severity
from keepstep.model.report import Report
from keepstep.store import run_folders

CARD = ".job"
"""In a folder of guards: whose it is."""
MOST = 8
"""How many jobs, the newest ones, are explained."""
_STAMP = re.compile(r"\d{8}T\d{6}Z")
"""In the name of every folder that keepstep makes: when it was made."""


@dataclass(frozen=True)
class GivenJob:
    """The folders of one job: its guards' on each host, or its run's."""

    name: str
    began: str
    paths: tuple[Path, ...]


def jobs_in(paths: Sequence[Path]) -> list[GivenJob]:
    """The jobs whose folders these are, the newest first; none where it is only one, or where one says nothing."""
    found: dict[str, list[Path]] = {}
    for path in (folder for given in paths for folder in _folders_in(given)):
        job = _job_of(path)
        if job is None:
            return []
        found.setdefault(job, []).append(path)
    if len(found) < 2:
        return []
    jobs = [GivenJob(_folder_of(places[0]).name, _began(places[0]), tuple(places)) for places in found.values()]
    return sorted(jobs, key=lambda each: each.began, reverse=True)


def explain_jobs(jobs: Sequence[GivenJob], explain: Callable[[Sequence[Path]], Explained]) -> Explained:
    """The newest job that failed, else the newest; what became of the others is said in a line for each."""
    explained = [(job, explain(job.paths)) for job in jobs[:MOST]]
    job, main = next((each for each in explained if _failed(each[1].report)), explained[0])
    others = [(each, its.report) for each, its in explained if each is not job]
    looked = [Coverage(what=count(len(others), "other job"), state=CoverageState.CHECKED)]
    if len(jobs) > MOST:
        left = count(len(jobs) - MOST, "older job")
        looked.append(Coverage(what=left, state=CoverageState.NOT_CHECKED, why="give its folder alone"))
    report = replace(
        main.report,
        story=(f"{len(jobs)} jobs were given; this is {job.name}", *main.report.story),
        earlier=(*main.report.earlier, *(f"{each.name}, another job: {_told(report)}" for each, report in others)),
        coverage=(*main.report.coverage, *looked),
    )
    return replace(main, report=report)


def _failed(report: Report) -> bool:
    return report.root is not None and report.root.severity is Severity.FATAL


def _told(report: Report) -> str:
    root = report.root
    return f"{root.title} ({root.cause.value})" if root is not None else report.verdict.value


def _folders_in(path: Path) -> list[Path]:
    """The folders of jobs in a folder that holds nothing else; else the path itself."""
    try:
        inside = [each for each in path.iterdir() if not each.name.startswith(".")] if path.is_dir() else []
    except OSError:
        return [path]
    return sorted(inside) if inside and all((each / CARD).is_file() for each in inside) else [path]


def _job_of(path: Path) -> str | None:
    """What the folders of one job have in common; None if it is no folder of a job."""
    run = _folder_of(path)
    if run_folders.read_manifest(run) is not None:
        return str(run.absolute())
    if not (path / CARD).is_file():
        return None
    from keepstep.guard.agree.run_folder import read_card

    return str((read_card(path) or {}).get("run") or path.absolute().name)


def _folder_of(path: Path) -> Path:
    """The run of an attempt's folder; any other folder as it is."""
    path = path.absolute()
    return path.parent if path.name.startswith("attempt-") else path


def _began(path: Path) -> str:
    found = _STAMP.search(_folder_of(path).name)
    return found[0] if found is not None else ""
