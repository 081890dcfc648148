# SPDX-License-Identifier: Apache-2.0
"""What `keepstep why` is asked, in the user's words, and the answer: which runs, jobs and files the words mean."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from keepstep.analyze.earlier_runs import latest_failure
from keepstep.analyze.load_tables import known_with
from keepstep.analyze.passes import Progress
from keepstep.analyze.report_on_attempts import of_all_attempts
from keepstep.analyze.runs_of_job import runs_of
from keepstep.analyze.several_jobs import explain_jobs, jobs_in
from keepstep.analyze.several_runs import compared, runs_in
from keepstep.analyze.why import Explained, explain_live, explain_paths
from keepstep.base.did_you_mean import did_you_mean
from keepstep.base.redact import redact
from keepstep.base.time_budget import TimeBudget
from keepstep.errors import Unavailable, UserError
from keepstep.extend import Extensions, load_extensions
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ProcessExited
from keepstep.model.finding import Confidence, Severity
from keepstep.model.report import Report
from keepstep.parse.scan.patience import PER_FILE_S
from keepstep.rules import builtin_rules
from keepstep.sources.files.left_files import LeftFile, read_standard_input
from keepstep.sources.schedulers.scheduler_answer import JobLeft
from keepstep.store import fallback_folder, run_folders
from keepstep.store.failed_hosts import remember

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Question:
    """``words``: paths, names of runs, ``-``, ``slurm:JOB`` and ``k8s:JOB``. ``live``: what runs here, or ``pids``."""

    words: Sequence[str] = ()
    live: bool = False
    pids: Sequence[int] = ()
    config: Path | None = None
    rules: Sequence[Path] = ()
    kernel_log: bool = True
    patience_s: float = PER_FILE_S
    follow: bool = False
    budget: TimeBudget = field(default_factory=TimeBudget)
    exit_statuses: Mapping[int, int] = field(default_factory=dict)
    """By rank, as the user knows them."""


def answer(question: Question, progress: Progress = lambda done, total: None) -> Explained:
    """Explain what was asked about, and note which host failed first: the next `keepstep check` then knows."""
    own = load_extensions(question.config, folders=question.rules, taken=(rule.id for rule in builtin_rules()))
    if question.live:
        explained = explain_live(list(question.pids) or None, rules=own.rules)
    else:
        explained = _explain_words(question, own, progress)
    _remember_host(explained.report)
    return explained


@dataclass
class _Meant:
    """What the words mean."""

    places: list[Path] = field(default_factory=list)
    """Run folders, and any other paths as they are."""
    jobs: list[JobLeft] = field(default_factory=list)
    runs: list[Path] = field(default_factory=list)
    """What `keepstep run` left in those jobs."""
    texts: list[LeftFile] = field(default_factory=list)


def _explain_words(question: Question, own: Extensions, progress: Progress) -> Explained:
    """Of several runs, the latest failure and what it has in common with those before it; of several jobs, each."""
    meant = _meaning(question.words)
    only_places = len(meant.places) == len(question.words)
    listed = runs_in(meant.places) if only_places else []
    if not listed:
        several = jobs_in(meant.places) if only_places else []
        if several:
            return explain_jobs(several, lambda paths: _explain(_Meant(list(paths)), question, own, progress))
        return _explain(meant, question, own, progress)
    latest = latest_failure(listed)
    explained = _explain(_Meant([latest.path]), question, own, progress)
    return compared(explained, latest, listed, follow=question.follow, budget=question.budget)


def _meaning(words: Sequence[str]) -> _Meant:
    meant = _Meant()
    for word in words:
        if word == STANDARD_INPUT:
            meant.texts.append(read_standard_input())
        elif word.startswith("slurm:"):
            from keepstep.sources.schedulers.slurm_job import read_slurm_job

            job = read_slurm_job(word.removeprefix("slurm:"))
            meant.jobs.append(job)
            meant.runs += runs_of(job)
        elif word.startswith("k8s:"):
            from keepstep.sources.schedulers.kubernetes_job import read_kubernetes_job

            meant.jobs.append(read_kubernetes_job(word.removeprefix("k8s:")))
        else:
            meant.places.append(run_or_path(word))
    return meant


def run_or_path(word: str) -> Path:
    """The folder of a run of `keepstep run`, named by folder or name, wherever it is now; any other path as it is."""
    path = Path(word)
    if not path.exists() and "/" not in word:
        listed = fallback_folder.all_runs()
        found = run_folders.find(word, listed)
        if found is None and word == "last":
            found = run_folders.last_of_guards()
        if found is None and word == "last":
            for place, why in run_folders.unreadable():
                raise Unavailable(f"cannot read {place}: {why}")
            raise UserError(
                f"there is no run here yet: no run folder in {run_folders.DEFAULT.absolute()}",
                hint="start one with `keepstep run -- CMD`, or give the folder or files that a run wrote",
            )
        if found is None and (hint := did_you_mean(word, ["last", *(run.path.name for run in listed)])) is not None:
            raise UserError(f"no such file or run: {word}", hint=hint)
        path = found or path
    return fallback_folder.of(path) or path


def run_place(word: str) -> Path:
    """The same for verbs that take one run: it must be there."""
    path = run_or_path(word)
    if not path.exists():
        raise UserError(f"no such file or run: {word}", hint="`keepstep runs` lists the runs in this folder")
    return path


def _explain(meant: _Meant, question: Question, own: Extensions, progress: Progress) -> Explained:
    """The last attempt of each run, and everything else; of a single run, the earlier attempts too."""
    folders = [*meant.places, *meant.runs[-1:]]
    explained = explain_paths(
        [*map(run_folders.attempt_to_explain, folders), *(path for job in meant.jobs for path in job.paths)],
        more=[*meant.texts, *(text for job in meant.jobs for text in job.texts)],
        evidence=[*(each for job in meant.jobs for each in job.evidence), *_as_the_user_says(question)],
        coverage=[
            *own.coverage,
            *(each for job in meant.jobs for each in job.coverage),
            *_damaged_manifests(meant.places),
            *(Coverage(what=f"the job's run {run.name}", state=CoverageState.CHECKED) for run in meant.runs[-1:]),
        ],
        knowledge=known_with(own.signatures, own.blocks) if own.signatures or own.blocks else None,
        rules=own.rules,
        kernel_log=question.kernel_log,
        progress=progress,
        patience_s=question.patience_s,
        follow=question.follow,
        budget=question.budget,
    )
    if len(folders) != 1 or len(meant.jobs) != len(meant.runs[-1:]) or meant.texts:
        return explained
    return replace(explained, report=_with_earlier_attempts(explained.report, folders[0], question))


def _as_the_user_says(question: Question) -> Iterator[Evidence[Fact]]:
    for rank, status in question.exit_statuses.items():
        origin, quote = Origin(source="--exit-status"), f"{rank}={status}"
        yield Evidence(fact=ProcessExited(rank=rank, reporter="the user", code=status), origin=origin, quote=quote)


def _damaged_manifests(places: Sequence[Path]) -> Iterator[Coverage]:
    for place in places:
        why = run_folders.manifest_problem(place)
        if why is not None:
            yield Coverage(what=str(place / run_folders.MANIFEST), state=CoverageState.UNAVAILABLE, why=why)


def _with_earlier_attempts(report: Report, run: Path, question: Question) -> Report:
    """The report on a run's last attempt becomes one on all of its attempts."""
    manifest, folders = run_folders.read_manifest(run), run_folders.attempts_to_explain(run)
    if manifest is None or not folders:
        return report
    last = max(folders)
    reports = {
        number: explain_paths([folder], follow=question.follow, budget=question.budget).report
        for number, folder in folders.items()
        if number != last
    }
    attempts = [each for each in manifest.attempts if each.number <= last]
    return of_all_attempts({**reports, last: report}, attempts)


def _remember_host(report: Report) -> None:
    root = report.root
    if root is None or root.severity is not Severity.FATAL or root.confidence is Confidence.HYPOTHESIS:
        return
    nodes = {redact(each.rank.node) for each in root.evidence if each.rank and each.rank.node}
    if len(nodes) == 1:
        remember(nodes.pop(), root.cause.value, time.time())
