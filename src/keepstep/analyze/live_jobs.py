# SPDX-License-Identifier: Apache-2.0
"""For ``keepstep why --live``: each job on this host is diagnosed for itself, and one report names them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from keepstep.base.wording import duration, listing
from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import RankDoing
from keepstep.model.facts.process import ProcessSeen
from keepstep.model.report import Report, Verdict
from keepstep.render.nothing_found import STANDS_STILL, said_without_findings
from keepstep.rules.asking.live_jobs import jobs

_WORST_FIRST = (Verdict.HUNG, Verdict.FAILED, Verdict.DEGRADED, Verdict.UNKNOWN, Verdict.HEALTHY)
MOST_PIDS = 8


@dataclass(frozen=True)
class LiveJob:
    """The evidence from the processes of one job."""

    name: str
    pids: tuple[int, ...]
    seen: EvidenceSet


def live_jobs(seen: EvidenceSet) -> list[LiveJob]:
    """The jobs of a look, by what their processes share; those that only wait to meet, by their program."""
    groups: dict[str | None, list[Evidence[ProcessSeen]]] = {}
    for each in seen.all(ProcessSeen):
        groups.setdefault(each.fact.job, []).append(each)
    return [_job(members, seen) for members in _joined(list(groups.values()), seen)]


def _joined(groups: list[list[Evidence[ProcessSeen]]], seen: EvidenceSet) -> list[list[Evidence[ProcessSeen]]]:
    """Processes of one program that all still wait for the others to start may be one job with two addresses."""
    starting = {
        each.process.fact.pid
        for job in jobs(seen)
        for each in job
        if each.waits_to_start and len(job) < (each.process.fact.world or len(job) + 1)
    }
    found: dict[object, list[Evidence[ProcessSeen]]] = {}
    for n, members in enumerate(groups):
        waits = all(each.fact.pid in starting for each in members)
        found.setdefault(members[0].fact.command if waits else n, []).extend(members)
    return list(found.values())


def _job(members: Sequence[Evidence[ProcessSeen]], seen: EvidenceSet) -> LiveJob:
    pids = tuple(each.fact.pid for each in members)
    sources = tuple(f"pid {pid}" for pid in pids)
    children = tuple(f"(child of {pid})" for pid in pids)
    items = tuple(e for e in seen.items if e.origin.source in sources or e.origin.source.endswith(children))
    shown = ", ".join(map(str, pids[:MOST_PIDS])) + (", ..." if len(pids) > MOST_PIDS else "")
    programs = listing(dict.fromkeys(each.fact.command for each in members))
    return LiveJob(f"{programs} (pid {shown})", pids, EvidenceSet(items=items, coverage=seen.coverage))


def with_ranks(job: LiveJob, known: Sequence[Evidence[Fact]], looked: Sequence[Coverage]) -> LiveJob:
    """The processes that carry no rank get that of their guard's black box; what the guards say is added."""
    ranks = {each.fact.pid: each.rank for each in known if isinstance(each.fact, RankDoing) and each.rank is not None}
    sources = {f"pid {pid}": rank for pid, rank in ranks.items()}
    items = [e if e.rank is not None else replace(e, rank=sources.get(e.origin.source)) for e in job.seen.items]
    return replace(job, seen=EvidenceSet(items=(*items, *known), coverage=(*job.seen.coverage, *looked)))


def report_on_jobs(
    found: Sequence[LiveJob], looked: Sequence[Coverage], ask: Callable[[EvidenceSet], Report]
) -> Report:
    """One report on all jobs, the worst first. Nothing that still runs is called healthy."""
    if not found:
        return _unproven(ask(EvidenceSet(items=(), coverage=tuple(looked))), ())
    reports = [_unproven(ask(job.seen), _open_ends(job)) for job in found]
    if len(reports) == 1:
        return reports[0]
    order = sorted(range(len(reports)), key=lambda n: _WORST_FIRST.index(reports[n].verdict))
    findings = (replace(each, title=f"{found[n].name}: {each.title}") for n in order for each in reports[n].findings)
    coverage = dict.fromkeys(each for n in order for each in reports[n].coverage)
    story = tuple(f"job {place}, {found[n].name}: {_told(reports[n])}" for place, n in enumerate(order, 1))
    return replace(reports[order[0]], findings=tuple(findings), coverage=tuple(coverage), story=story)


def _told(report: Report) -> str:
    root = report.root
    return f"{report.verdict.value}: {root.title}" if root is not None else said_without_findings(report)


def _unproven(report: Report, open_ends: Sequence[Coverage]) -> Report:
    verdict = Verdict.UNKNOWN if report.verdict is Verdict.HEALTHY else report.verdict
    if report.findings:
        return replace(report, verdict=verdict)
    return replace(report, verdict=verdict, coverage=tuple(dict.fromkeys((*report.coverage, *open_ends))))


def _open_ends(job: LiveJob) -> list[Coverage]:
    """What a look cannot say about a job without findings: how it ends, or why nothing moves."""
    unavailable = CoverageState.UNAVAILABLE
    members = [each for one in jobs(job.seen) for each in one]
    if members and all(each.process.fact.still for each in members) and not any(each.busy for each in members):
        watched = max(each.process.fact.watched_s or 0.0 for each in members)
        places = listing(f"{each.name} in {each.where}" for each in members[:4])
        return [
            Coverage(
                what=f"{STANDS_STILL} for {duration(watched)}: {places}",
                state=unavailable,
                why="look again in a minute",
            )
        ]
    return [Coverage(what="how the run ends", state=unavailable, why="it still runs")]
