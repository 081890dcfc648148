# SPDX-License-Identifier: Apache-2.0
"""From what a dead run left behind, or what a stuck one is doing, to a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keepstep.analyze.filled_commands import with_places
from keepstep.analyze.passes import PASSES, Gathered, Progress
from keepstep.base.time_budget import TimeBudget
from keepstep.model.evidence import Coverage, Evidence, EvidenceSet
from keepstep.model.facts.arrivals import RanksArriving
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import CollectivesIssued, RankDoing, WorldFormed
from keepstep.model.report import Report
from keepstep.model.rule import Rule
from keepstep.parse.scan.knowledge import Knowledge
from keepstep.parse.scan.patience import PER_FILE_S
from keepstep.rules import builtin_rules
from keepstep.sources.files.left_files import LeftFile
from keepstep.sources.recorded.own_records import read_own
from keepstep.story.engine import diagnose

_TOLD_BY_GUARDS = (CollectivesIssued, RankDoing, RanksArriving, WorldFormed)
"""Of what guards note, that which says something about the present."""


@dataclass(frozen=True)
class Explained:
    """A report and what it was made from, for bundles and pages."""

    report: Report
    seen: EvidenceSet
    files: tuple[LeftFile, ...] = ()


def explain_paths(
    paths: Sequence[Path],
    *,
    more: Sequence[LeftFile] = (),
    evidence: Sequence[Evidence[Fact]] = (),
    coverage: Sequence[Coverage] = (),
    knowledge: Knowledge | None = None,
    rules: Sequence[Rule] = (),
    kernel_log: bool = False,
    progress: Progress = lambda done, total: None,
    patience_s: float = PER_FILE_S,
    follow: bool = False,
    own_links: bool = False,
    budget: TimeBudget | None = None,
) -> Explained:
    """Read everything in the paths (and ``more``, which was read already) and diagnose it: see :class:`Gathered`."""
    now = Gathered(
        paths=paths,
        more=more,
        told=evidence,
        looked=coverage,
        knowledge=knowledge,
        rules=rules,
        kernel_log=kernel_log,
        progress=progress,
        patience_s=patience_s,
        follow=follow,
        own_links=own_links,
        budget=budget or TimeBudget(),
    )
    for each in PASSES:
        now = each.do(now)
    assert now.report is not None and now.seen is not None
    return Explained(now.report, now.seen, now.files)


def explain_live(pids: list[int] | None, *, rules: Sequence[Rule] = ()) -> Explained:
    """Look at the running processes on this host and diagnose them."""
    from keepstep.analyze.live import look_at_live
    from keepstep.analyze.live_jobs import live_jobs, report_on_jobs, with_ranks
    from keepstep.sources.recorded.open_boxes import left_by

    seen = look_at_live(pids)
    left: list[LeftFile] = []
    found = []
    for job in live_jobs(seen):
        boxes = left_by(job.pids)
        own, looked = read_own(boxes)
        known = [each for each in own if isinstance(each.fact, _TOLD_BY_GUARDS)]
        found.append(with_ranks(job, known, looked))
        left += boxes
    report = report_on_jobs(found, seen.coverage, lambda of_job: diagnose(of_job, [*builtin_rules(), *rules]))
    everything = tuple(item for job in found for item in job.seen.items)
    seen = EvidenceSet(items=everything, coverage=report.coverage)
    return Explained(with_places(report, (each.path.parent for each in left if each.path is not None)), seen)
